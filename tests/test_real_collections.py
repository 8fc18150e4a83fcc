"""The whole way, from real corpora to ranked documents, with the encoder that ships."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swiftlet.corpora.collections import read_documents, read_queries
from swiftlet.corpora.trec import read_qrels
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.evaluation.experiment import match_judgements, run_queries
from swiftlet.evaluation.metrics import evaluate
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.search.request import MODES
from swiftlet.search.searcher import Searcher
from swiftlet.types import Qrels, Query

pytestmark = [pytest.mark.real_data, pytest.mark.timeout(600)]


@contextmanager
def searcher_over(
    folder: Path, out: Path, settings: BuildSettings, encoder: Path = LOOKUP_QUERY_ENCODER
) -> Iterator[Searcher]:
    build_index(read_documents(folder), encoder, out, settings)
    searcher = Searcher.open(out, encoder)
    yield searcher
    searcher.close()


def judged(folder: Path, split: str, searcher: Searcher) -> tuple[list[Query], Qrels]:
    path = folder / "qrels" / f"{split}.tsv"
    matched = match_judgements(
        read_queries(folder), read_qrels(path), SearcherRetriever(searcher).holds, qrels_path=path
    )
    return matched.queries, matched.qrels


@pytest.mark.soak
def test_squad_is_searched_as_well_as_the_fp32_model_does_and_better_with_words(
    shared_data, tmp_path
):
    folder = shared_data / "squad-dev-v1.1"
    settings = BuildSettings(truncate=True, factory="Flat")
    with searcher_over(folder, tmp_path / "index", settings, DEFAULT_ENCODER) as searcher:
        queries, qrels = judged(folder, "test", searcher)
        dense, hybrid = (
            run_queries(SearcherRetriever(searcher, mode=mode), queries, top_k=10)
            for mode in ("dense", "hybrid")
        )
    assert len(queries) == 2897
    # docs/results/parity.md: 0.7700 in fp32; the bound is what int8 may cost.
    assert evaluate(dense, qrels, ["nDCG@10"])["nDCG@10"] == pytest.approx(0.7700, abs=0.005)
    # docs/results/hybrid.md: 0.8930 with shorter passages.
    assert evaluate(hybrid, qrels, ["nDCG@10"])["nDCG@10"] == pytest.approx(0.893, abs=0.01)


@pytest.mark.soak
def test_long_documents_are_each_found_once_and_exactly_top_k_of_them(shared_data, tmp_path):
    folder = shared_data / "covid-qa"
    with searcher_over(folder, tmp_path / "index", BuildSettings()) as searcher:
        queries, qrels = judged(folder, "all", searcher)
        assert searcher.num_passages > 20 * searcher.num_documents
        for query in queries[:20]:
            for top_k in (1, 10, searcher.num_documents, searcher.num_documents + 100):
                hits = searcher.search(query.text, top_k).hits
                found = [hit.document_id for hit in hits]
                assert len(found) == len(set(found)) == min(top_k, searcher.num_documents)
                assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
        best = searcher.search(queries[0].text, 1).hits[0]
        text = searcher.document(best.document_id).text
        assert text[best.passage.start : best.passage.end] == best.passage.text
        run = run_queries(SearcherRetriever(searcher, mode="dense"), queries, top_k=10)
    # Reading the beginning of each article alone gives less than 0.5 (docs/results/parity.md).
    assert evaluate(run, qrels, ["nDCG@10"])["nDCG@10"] > 0.6


@pytest.mark.soak
def test_later_pages_of_an_approximate_index_are_parts_of_one_ranking(shared_data, tmp_path):
    folder = shared_data / "lisa"
    with searcher_over(folder, tmp_path / "index", BuildSettings()) as searcher:
        for query in read_queries(folder):
            for mode in MODES:
                pages = [
                    hit.document_id
                    for offset in range(10, 120, 10)
                    for hit in searcher.search(query.text, 10, mode=mode, offset=offset).hits
                ]
                whole = searcher.search(query.text, 110, mode=mode, offset=10).hits
                assert pages == [hit.document_id for hit in whole]
