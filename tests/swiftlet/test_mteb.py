"""Swiftlet as a model of MTEB, in real tasks of MTEB over small collections."""

import shutil
from dataclasses import replace
from typing import Any

import mteb
import numpy as np
import pytest
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.errors import EmbeddingSpaceMismatch, InvalidArgumentError
from swiftlet.integrations.mteb import SwiftletPair, SwiftletSearch
from swiftlet.manifest import read_manifest, write_manifest
from tests.conftest import TOPICS

QUERIES = {"q-bread": "how is bread baked", "q-bees": "who makes honey", "q-tides": "the sea rises"}
RELEVANT = {"q-bread": "bread-1", "q-bees": "bees-1", "q-tides": "tides-1"}


def metadata(kind: Any, score: str) -> TaskMetadata:
    return TaskMetadata(
        name=f"Small{kind}", description="", dataset={"path": "small", "revision": "1"},
        type=kind, category="t2t", modalities=["text"], eval_splits=["test"],
        eval_langs=["eng-Latn"], main_score=score, date=None, domains=None, task_subtypes=None,
        license=None, annotations_creators=None, dialect=None, sample_creation=None,
        bibtex_citation="", reference=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def retrieval(small_documents) -> AbsTaskRetrieval:
    """Three questions about the twelve topics, of which each has a document of one sentence."""
    documents = [each for each in small_documents if each.document_id.endswith("-1")]

    class Small(AbsTaskRetrieval):
        metadata = metadata("Retrieval", "ndcg_at_10")

        def load_data(self, **_: Any) -> None:
            corpus = [
                {"id": each.document_id, "title": each.title, "text": each.text}
                for each in documents
            ]
            queries = [{"id": name, "text": text} for name, text in QUERIES.items()]
            self.dataset = {
                "default": {
                    "test": {
                        "corpus": Dataset.from_list(corpus),
                        "queries": Dataset.from_list(queries),
                        "relevant_docs": {query: {RELEVANT[query]: 1} for query in QUERIES},
                        "top_ranked": None,
                    }
                }
            }
            self.data_loaded = True

    return Small()


def main_score(model: Any, task: Any) -> float:
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False)
    return float(result.task_results[0].get_score())


@pytest.mark.parametrize(
    "model",
    [
        SwiftletPair(),
        SwiftletPair(query_encoder=LOOKUP_QUERY_ENCODER.name, name="us/look-up"),
        SwiftletSearch(),
        SwiftletSearch(mode="dense", query_encoder=DEFAULT_ENCODER),
    ],
    ids=lambda model: model.mteb_model_meta.name,
)
def test_mteb_runs_retrieval(model, retrieval):
    assert main_score(model, retrieval) == 1.0


def test_queries_and_documents_have_the_encoders_of_their_sides():
    texts = [*TOPICS.values()]
    pair, batches = SwiftletPair(), [{"text": texts[:5]}, {"text": texts[5:]}]
    for prompt_type, encoder in (
        (mteb.types.PromptType.query, DEFAULT_QUERY_ENCODER),
        (mteb.types.PromptType.document, DEFAULT_ENCODER),
        (None, DEFAULT_ENCODER),
    ):
        found = pair.encode(batches, prompt_type=prompt_type)
        single = swiftlet.load_encoder(encoder)
        expected = np.vstack([single.encode([text]) for text in texts])
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_mteb_runs_other_tasks():
    class Small(AbsTaskSTS):
        metadata = metadata("STS", "cosine_spearman")

        def load_data(self, **_: Any) -> None:
            texts = [*TOPICS.values()][:3]
            rows = [
                {"sentence1": text, "sentence2": other, "score": float(text == other)}
                for text in texts
                for other in texts
            ]
            self.dataset = {"test": Dataset.from_list(rows)}
            self.data_loaded = True

    assert main_score(SwiftletPair(), Small()) > 0.5


def test_another_embedding_space_and_ranking_are_refused(tmp_path):
    other = shutil.copytree(LOOKUP_QUERY_ENCODER, tmp_path / "other")
    write_manifest(other, replace(read_manifest(other), embedding_space="another"))
    with pytest.raises(EmbeddingSpaceMismatch, match="name one that is trained for this space"):
        SwiftletPair(query_encoder=other)
    with pytest.raises(InvalidArgumentError, match="take SwiftletPair"):
        SwiftletSearch().search([], top_k=5, top_ranked={"q": ["a"]})
