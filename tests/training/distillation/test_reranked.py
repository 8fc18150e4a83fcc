"""The scores of a cross-encoder as targets of the ranking loss."""

from pathlib import Path

import pytest
import torch

from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.building.build import build
from tests.runs import Listener
from training.adaptation.texts import known_items
from training.distillation.distill import distill
from training.distillation.overlap import IndexComparison
from training.distillation.ranking import RerankedTargets
from training.distillation.settings import Distillation

TEXTS = [f"Fact {number} is about bridges, rivers and bees." for number in range(600)]
QUERIES = ["a bridge of steel", "where do bees live"]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """Read only."""
    out = tmp_path_factory.mktemp("reranked") / "index"
    documents = [{"_id": f"d{n}", "title": f"Title {n}", "text": t} for n, t in enumerate(TEXTS)]
    build(documents, out, encoder=LOOKUP_QUERY_ENCODER)  # of the space of the teacher
    return out


class Counting:
    """A re-ranker that counts the pairs it scores."""

    def __init__(self, reranker: OnnxReranker) -> None:
        self.name, self.seconds, self.weight = reranker.name, 0.0, 1.0
        self.pairs: list[tuple[str, str]] = []
        self._reranker = reranker

    def score(self, query: str, text: str) -> float:
        return self._reranker.score(query, text)

    def logit(self, query: str, text: str) -> float:
        self.pairs.append((query, text))
        return self._reranker.logit(query, text)


def settings(**others: object) -> Distillation:
    given = {"teacher": str(DEFAULT_ENCODER), "layers": (0,), "queries": ("log",), "documents": 4}
    return Distillation(**(given | others))  # type: ignore[arg-type]


def test_a_judged_query_learns_the_softmax_of_its_scores(index, reranker_directory):
    encoder = OnnxEncoder.load(DEFAULT_ENCODER)
    comparison = IndexComparison(index, encoder)
    reranker = Counting(OnnxReranker.load(reranker_directory))
    targets = RerankedTargets(
        reranker, comparison.neighbours(4), comparison.store, {QUERIES[0]}, settings()
    )
    teacher = torch.from_numpy(encoder.encode(QUERIES))
    found = targets.of(QUERIES, teacher)
    assert found[1] is None
    assert found[0] is not None
    rows, logits = found[0]
    assert 4 <= len(rows) <= 8
    pairs = [(QUERIES[0], f"Title {row} {TEXTS[row]}") for row in rows]
    assert logits == [OnnxReranker.load(reranker_directory).logit(*pair) for pair in pairs]
    assert targets.of(QUERIES, teacher) == found
    assert sorted(reranker.pairs) == sorted(pairs)

    scores = 20 * teacher[:1] @ torch.from_numpy(comparison.index.embeddings(rows)).T
    wanted = torch.softmax(torch.tensor([logits]), -1)
    divergence = (wanted * (wanted / torch.softmax(scores, -1)).log()).sum().item()
    assert targets.loss(teacher, found).item() == pytest.approx(divergence / 2, rel=1e-4)
    same = [(rows, scores[0].tolist()), None]
    assert targets.loss(teacher, same).item() == pytest.approx(0, abs=1e-5)


def test_without_judged_queries_or_a_reranker_it_is_refused(index, reranker_directory, tmp_path):
    sentences = known_items(index, tmp_path / "texts").training
    (queries,) = (each.model_copy(update={"sentences": False}) for each in sentences)
    given = {"index": str(index), "ranking": 1.0, "student": LOOKUP_QUERY_ENCODER.name}
    given |= {"layers": None, "queries": ()}
    for teacher, judged, sentence in (
        (reranker_directory, sentences, "for judged queries, but there are none"),
        (DEFAULT_ENCODER, (queries,), "name a re-ranker that swiftlet export wrote"),
    ):
        refused = settings(**given | {"ranking_teacher": str(teacher), "judged": judged})
        with pytest.raises(InvalidArgumentError, match=sentence):
            distill(refused, tmp_path / "run", progress=Listener())
        assert not (tmp_path / "run").exists()
