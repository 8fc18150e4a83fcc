"""A query and a text to a score: the protocol of re-rankers, and the one on ONNX Runtime."""

import json
from collections.abc import Sequence
from math import tanh
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np
import onnxruntime
from numpy.typing import ArrayLike, NDArray

from swiftlet.encoders.encoder import (
    CANONICAL_FILE,
    MODEL_FILES,
    TOKENIZER_FILE,
    Precision,
    choose_precision,
    open_session,
)
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import CorruptArtefactError
from swiftlet.manifest import Manifest, load_manifest

KIND = "reranker"
"""The kind of artefact of a re-ranker's directory."""

LARGEST_CANONICAL_CHANGE: dict[Precision, float] = {"fp32": 0.001, "int8": 0.05}
"""How much a canonical score may differ on this machine from the stored one."""

# A logit of 10 is a score of 0.99995.
_HIGH_LOGIT = 10.0


class Reranker(Protocol):
    """Scores texts for a query by reading both together."""

    name: str
    seconds: float
    """The approximate time of one text."""
    weight: float
    """The weight of its logits in the order of documents, from 0 to 1: see `order_by`."""

    def score(self, query: str, text: str) -> float:
        """The score of a text, from 0 to 1."""
        ...

    def logit(self, query: str, text: str) -> float:
        """The score as the model gives it: any number."""
        ...


def score_of(logit: float) -> float:
    """The score from 0 to 1 of a logit, by the logistic function."""
    return (1 + tanh(logit / 2)) / 2


_LEAST_SCORE = 1e-100
"""A smaller highest score counts as none: shares of it might not be finite."""


def order_by(scores: ArrayLike, logits: Sequence[float], weight: float) -> NDArray[np.float64]:
    """What documents are ordered by: the scores of their search and of a re-ranker, weighted.

    A score of the search counts as a share of the highest one, so that it may be of any search.

    :param scores: Those of the search, (n,), from the highest on, of at least as many documents.
    :param logits: Those of the re-ranker for the first documents.
    :param weight: The weight of the logits, from 0 to 1.
    """
    searched = np.asarray(scores, np.float64)[: len(logits)]
    highest = abs(searched[0]) if logits else 1.0
    shares = searched / (highest if highest > _LEAST_SCORE else 1.0)
    return (1 - weight) * shares + weight * np.array(logits, np.float64) / _HIGH_LOGIT


class OnnxReranker:
    """A re-ranker's directory in ONNX Runtime, one pair per run, on the calling thread.

    With dynamic int8, the other pairs of a batch change a score, so each pair runs alone: it has
    the same score under any load. Thread-safe.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        tokenizer: Tokenizer,
        manifest: Manifest,
        precision: Precision,
    ) -> None:
        self.manifest = manifest
        self.precision = precision
        self.name = str(manifest.details.get("name", ""))
        self.seconds = 0.0
        self.weight = float(manifest.details.get("weight", 1.0))
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = {node.name for node in session.get_inputs()}

    @classmethod
    def load(cls, directory: Path, *, precision: Precision | None = None) -> "OnnxReranker":
        """Open a re-ranker's directory, after every file is verified.

        :param precision: The model; None takes the default of the manifest.
        :raises ManifestError: When the directory is no re-ranker.
        :raises CorruptArtefactError: When a file is damaged, or the canonical scores drift.
        :raises InvalidArgumentError: When it has no model of this `precision`.
        """
        manifest = load_manifest(directory, KIND)
        precision = choose_precision(directory, manifest, precision)
        reranker = cls(
            open_session(directory / MODEL_FILES[precision], 1),
            Tokenizer.load(directory / TOKENIZER_FILE),
            manifest,
            precision,
        )
        began = perf_counter()
        num_pairs = reranker._check_canonical(directory / CANONICAL_FILE)
        reranker.seconds = (perf_counter() - began) / num_pairs
        return reranker

    def __repr__(self) -> str:
        return f"OnnxReranker({self.name!r}, {self.precision})"

    def score(self, query: str, text: str) -> float:
        """The score of a text for a query, from 0 to 1."""
        return score_of(self.logit(query, text))

    def logit(self, query: str, text: str) -> float:
        """The score as the model gives it: any number."""
        return float(self._session.run(None, self.inputs(query, text))[0][0, 0])

    def inputs(self, query: str, text: str) -> dict[str, np.ndarray]:
        """The inputs of the graph for one pair, (1, tokens) each."""
        encoding = self._tokenizer.encode_pair(query, text)
        found = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        return {
            name: np.array([ids], dtype=np.int64)
            for name, ids in found.items()
            if name in self._inputs
        }

    def _check_canonical(self, path: Path) -> int:
        """Score the canonical pairs again; how many there are."""
        try:
            canonical = json.loads(path.read_bytes())
            expected = zip(canonical["pairs"], canonical["scores"][self.precision], strict=True)
            drifts = [abs(self.logit(*pair) - score) for pair, score in expected]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptArtefactError(f"{path} is not a list of canonical pairs") from error
        except Exception as error:  # the base class of onnxruntime's errors
            raise CorruptArtefactError(
                f"the model of {path.parent} cannot score a pair; export it again"
            ) from error
        bound = LARGEST_CANONICAL_CHANGE[self.precision]
        if not max(drifts) <= bound:
            raise CorruptArtefactError(
                f"{path.parent} does not give its canonical scores on this machine: one differs by "
                f"{max(drifts):.3f}, at most {bound} is expected; export it again"
            )
        return len(drifts)
