"""The experiments of 002 and 003: what they measure, and the sentences that follow from figures."""

import json
import random
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from experiments import companions, reranking, sharing
from experiments.long_documents import __main__ as long_documents
from experiments.long_documents import models, task
from export.quality import Collection
from measuring.results import Figures, page_of
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.types import Document, Query

MACHINE = "A machine."


def clouds(distance: float) -> list[np.ndarray]:
    """Two clouds of unit vectors, drawn alike or apart."""
    random = np.random.default_rng(0)
    points = [random.standard_normal((300, 8)) for _ in range(2)]
    points[1][:, 0] += distance
    return [each / np.linalg.norm(each, axis=1, keepdims=True) for each in points]


def test_clouds_that_are_drawn_alike_are_mixed_and_clusters_are_not() -> None:
    assert sharing.mixed(*clouds(0)) == pytest.approx(0.5, abs=0.03)
    assert sharing.mixed(*clouds(50)) < 0.05


def spread(mean: float) -> Figures:
    return {"mean": mean, "half": 0.01, "least": mean - 0.01, "most": mean + 0.01}


def sharing_page(before: float = 0.4, lower: float = 0.1, **of_variants: float) -> str:
    values = dict.fromkeys(sharing.VARIANTS, 0.5) | of_variants
    names = (sharing.SQUAD, *sharing.ZERO_SHOT)
    states = dict(zip(sharing.STATES, (before, lower, 0.0), strict=True))
    figures = {
        "template": "experiments/sharing.md.j2", "plot": "sharing.png", "machine": MACHINE,
        "variants": {
            variant: {
                "seconds": 240, "mixed": spread(0.3),
                "values": {n: dict.fromkeys(sharing.METRICS, spread(value)) for n in names},
            }
            for variant, value in values.items()
        },
        "settings": sharing.SETTINGS["settings"], "seeds": 3, "paper": sharing.SETTINGS["paper"],
        "in_domain": sharing.SQUAD, "zero_shot": sharing.ZERO_SHOT,
        "states": {
            state: {
                name: dict.fromkeys(sharing.METRICS, spread(value if name != "ADE" else 0.0))
                for name in sharing.BEGUN
            }
            for state, value in states.items()
        },
    }  # fmt: skip
    return page_of(Path("sharing.json"), figures)


def test_the_findings_about_sharing_follow_from_the_seeds() -> None:
    page = sharing_page(SDE=0.7, ADE=0.5, **{"ADE-SPL": 0.65})
    assert "P@1 in this table, SDE better than ADE: confirmed: every seed of SDE is" in page
    assert "closes 75% of the gap to SDE; in the paper 92%" in page
    page = sharing_page(SDE=0.5, ADE=0.7, **{"ADE-SPL": 0.71})
    assert (
        "P@1 in this table, SDE better than ADE: contradicted: every seed of SDE is worse" in page
    )
    assert "ADE-SPL better than ADE: neither: the seeds of both overlap" in page
    assert "P@1 from this start, ADE-SPL better than ADE: confirmed" in page
    assert "It closes 100% of the gap to SDE so far; in the paper 92%" in page
    assert "no evidence" not in page
    unchanged = sharing_page(before=0.5, ADE=0.3)
    assert "Training hardly changes SDE (50.0 → 50.0)" in unchanged
    assert "closes 100% of\n  the gap between ADE and SDE, but 100% before training" in unchanged
    assert "in this table" not in unchanged
    assert "from 0.0 ± 1.0 to 10.0 ± 1.0 in SDE" in page
    assert "from this start, SDE better than ADE: neither" in sharing_page(lower=0.01)


COUNTS = {"passages": 60, "queries": 20, "tuned_on": 10, "trained_on": 30}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A BEIR folder of long texts."""
    chance = random.Random(1)
    words = [f"word{number}" for number in range(500)]
    rows = [
        {"_id": f"{number}", "text": " ".join(chance.choices(words, k=600))} for number in range(8)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "word1"}))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1")
    return tmp_path


def test_a_query_is_a_span_of_its_passage_and_its_distractor_lacks_a_word_or_two(
    source: Path,
) -> None:
    read = tokenizers.Tokenizer.from_file(f"{DEFAULT_QUERY_ENCODER / TOKENIZER_FILE}")
    read.enable_truncation(512)
    judged, learnt = task.containing(source, Tokenizer(read), 100, COUNTS)
    assert judged.documents[:60] == learnt.documents[:60]
    assert not {query.text for query in judged.queries} & {query.text for query in learnt.queries}
    for made in (judged, learnt):
        texts = {document.document_id: document.text for document in made.documents}
        assert (len(made.queries), len(texts)) == (30, 60 + 30)
        for query in made.queries:
            (own,) = made.qrels[query.query_id]
            assert query.text in texts[own]
            assert 5 <= len(query.text.split()) <= 25
            distractor = texts[f"{own} without {query.query_id}"]
            pairs = zip(distractor.split(), texts[own].split(), strict=True)
            assert 0 <= sum(a != b for a, b in pairs) <= 2  # a word may replace itself
    # BM25 finds the passages of most queries, and pairs of words find more.
    pieces = task.pieces
    tokenizer = Tokenizer(read)
    scores = [
        task.bm25(judged, lambda text: pieces(tokenizer, text)),
        task.bm25(judged, lambda text: task.with_pairs(pieces(tokenizer, text))),
    ]
    uni, bi = (np.mean(task.reciprocal_ranks(each, judged)) for each in scores)
    assert 0.5 < uni <= bi
    # A hybrid of a perfect and a useless score is perfect.
    perfect = np.zeros_like(scores[0])
    for row, query in enumerate(judged.queries):
        perfect[row, int(next(iter(judged.qrels[query.query_id])))] = 1
    noise = np.random.default_rng(0).random(perfect.shape)
    found = task.tuned(noise, perfect, judged, 20)
    assert np.mean(task.reciprocal_ranks(found, judged)[:20]) == 1


def test_vectors_of_a_passage_are_as_alike_as_their_mean_cosine() -> None:
    one, other = np.eye(2)
    assert task.alike(np.array([[one, one], [other, other]])) == pytest.approx(1)
    assert task.alike(np.array([[one, one], [one, other]])) == pytest.approx(0.5)
    assert task.alike(np.array([[one, other, other]])) == pytest.approx(1 / 3)


def test_a_rank_below_ten_counts_nothing_and_ties_count_against_a_passage() -> None:
    queries = [Query(f"{number}", "") for number in range(3)]
    judged = Collection("", "", [], queries, {query.query_id: {"0": 1} for query in queries})
    scores = np.array([[9.0, *range(11)][:12], [5.0, 5, *[0] * 10], [0.0, *range(1, 12)]])
    assert task.reciprocal_ranks(scores, judged) == [1 / 3, 1 / 2, 0]


def test_only_the_best_by_bm25_are_re_ranked() -> None:
    others = 9
    texts = ["a b c", *["a"] * others, "a b", "a b c d"]
    judged = Collection(
        "", "", [Document(f"{n}", text) for n, text in enumerate(texts)],
        [Query("q", "a b c")], {"q": {"0": 1}},
    )  # fmt: skip

    def shared(query: str, text: str) -> float:
        return len({*query.split()} & {*text.split()})

    best_first = np.array([range(len(texts), 0, -1)], dtype=float)
    scores = task.reranked(shared, best_first, judged, 1, 10)
    assert [*scores[0]] == [3, *[1] * others, -np.inf, -np.inf]
    assert task.reciprocal_ranks(scores, judged) == [1]
    # Its passage is not among them.
    scores = task.reranked(shared, best_first[:, ::-1], judged, 1, 10)
    assert task.reciprocal_ranks(scores, judged) == [0]


def test_the_page_of_long_documents_says_what_its_figures_say() -> None:
    rows = {name: [{"mean": each / 100, "half": 0.01} for each in row]
            for name, row in long_documents.PAPER.items()}  # fmt: skip
    for row in rows.values():
        row[-1]["half"] = 0.0
    figures = {
        "template": "experiments/long-documents.md.j2", "plot": "p.svg", "machine": MACHINE,
        "lengths": long_documents.LENGTHS, "rows": rows, "paper": long_documents.PAPER,
        "bytes": {name: 128 for names in (rows, *long_documents.BY_SIZE) for name in names},
        "by_size": [
            {name: {"mean": 0.5 + place / 25, "half": 0.01} for place, name in enumerate(names)}
            for names in long_documents.BY_SIZE
        ],
        "seeds": 3, "minutes": dict.fromkeys(models.SYSTEMS, 2.5),
        "vectors": {"ME-64": {"alike": 0.3, "first_is_best": 0.25}},
        "settings": models.SETTINGS, "source": "qmsum",
        "of_cross": {
            "name": models.CROSS, "start": "a model", "epochs": models.CROSS_EPOCHS,
            "reranked": 10, **models.CROSS_SETTINGS,
        },
        "counts": {"passages": 3000, "queries": 500, "trained_on": 1600},
    }  # fmt: skip
    page = page_of(Path("long-documents.json"), figures)
    assert "DE-384 falls by 27.2 (002: 27.2)" in page
    assert "ME-384 than DE-384: confirmed at every length" in page
    assert "better than ME-384: confirmed at 2 of 4 lengths, contradicted at 0" in page
    assert "More dimensions in one vector: DE-64 +4.0 (no different), DE-128 +4.0" in page
    assert "| DE-32 | 128 | 70.1 ± 1.0 | 53.2 ± 1.0 | 34.0 ± 1.0 | 27.6 |" in page
    assert "mean cosine of 0.30, and the first is the best one for 25% of the queries." in page
    assert page.count("| DE-384 |") == 3
    for each in rows["ME-384"][:3]:
        each["mean"] = 0.1
    page = page_of(Path("long-documents.json"), figures)
    assert "ME-384 than DE-384: confirmed at 1 of 4 lengths, contradicted at 3" in page
    for own, other in zip(rows["ME-384"], rows["DE-384"], strict=True):
        own["mean"] = other["mean"] + 0.02
    page = page_of(Path("long-documents.json"), figures)
    assert "ME-384 than DE-384: no different at any length" in page


def test_the_gain_of_a_reranker_is_judged_by_the_goal() -> None:
    def figures(gain: float) -> Figures:
        values = {"hybrid": {"a": 0.5, "b": 0.7, "c": 0.6}, "re-ranked": {}}
        for place, (query, value) in enumerate(values["hybrid"].items()):
            values["re-ranked"][query] = value + gain + 0.001 * place
        held_out = {"weight": 0.3, "ndcg@10": 0.6, "searched_ndcg@10": 0.5}
        cost = {"ms_a_pair": 5.0, "pairs": 8}
        return {"seconds": 1800, "held_out": held_out, "values": values, **cost}

    found = {("squad-dev-v1.1", 0): figures(0.05), ("qmsum", 0): figures(0.01)}
    given = {"template": "experiments/reranking.md.j2", "machine": MACHINE}
    page = page_of(Path("reranking.json"), reranking.collected(Namespace(), found) | given)
    squad, qmsum = (
        next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        for name in ("squad-dev-v1.1", "qmsum")
    )
    assert "| 0.6000 | 0.6510 | +0.0510 |" in squad
    assert squad.endswith("| reached |")
    assert "qmsum: the weight 0.3 was chosen on queries held out" in page
    assert "+0.1000." in page
    assert "1 epoch on squad-dev-v1.1, then 2 epochs on qmsum with `optimiser.learning_rate" in page
    assert qmsum.endswith("| **missed** |")


def test_the_page_of_companions_names_the_best_row_and_the_gains() -> None:
    def figures(value: float) -> Figures:
        values = {f"q{number}": value + 0.001 * number for number in range(20)}
        sizes = {"documents": 9000, "learnt": 400, "tested": 20}
        return {"values": dict.fromkeys(companions.METRICS, values), "ms": 0.8, "sizes": sizes}

    names = [*companions.METHODS, *companions.ON_TOP]
    found = {(name, seed): figures(0.5) for name in names for seed in (0, 1)}
    found[companions.START, 0] = figures(0.5)
    found["STAR", 1] = found["STAR, then ADORE", 1] = figures(0.6)
    found["DAFT", 0] = found["DAFT", 1] = figures(0.7)
    found[companions.TEACHER, 0] = figures(0.9)
    given = {"template": "experiments/companions.md.j2", "machine": MACHINE}
    page = page_of(Path("companions.json"), companions.collected(Namespace(), found) | given)
    assert "All 9,000 documents, cut after" in page
    assert "The best row is DAFT, at 0.7095; the pair before training has 0.5095" in page
    assert "Against in-batch negatives alone: STAR +0.0500; TCT +0.0000; STAR, twice" in page
    assert "Against it: DAFT +0.2000;\n  STAR, then ADORE +0.0500" in page
    assert "After STAR, no checkpoint of ADORE was better" in page
    assert "After DAFT, no checkpoint" not in page
    assert "the training is too short to" in page
    assert "On top of DAFT: DAFT with STAR's negatives -0.2000" in page
    assert "worst seed is at most 0.0500" in page
