"""How well a student retrieves from an index what its teacher retrieves."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from evaluation.experiment import match_judgements, run_queries
from evaluation.metrics import evaluate
from evaluation.retrievers import SearcherRetriever
from retrieval.collections import read_qrels, read_queries
from retrieval.documents import DocumentStore
from retrieval.index import FaissIndex, SearchEffort, VectorIndex
from retrieval.manifest import Manifest, load_manifest
from retrieval.searcher import (
    DOCUMENTS_FILE,
    INDEX_FILE,
    PASSAGE_TO_DOCUMENT_FILE,
    Searcher,
)
from retrieval.types import Embeddings, Query, Run
from training.context import TrainingProgress
from training.encoders import Tower

NDCG = "nDCG@10"
_BLOCK = 65_536
_NEAREST, _DEEP = 10, 100


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a student finds of what its teacher finds, both in the same way, means over queries.

    `overlap_10` is the share of the teacher's 10 best documents among the student's 10 best, and
    `recall_100` that among its 100 best. Where there are judgements, `teacher_ndcg` and
    `student_ndcg` are the nDCG@10 of both.
    """

    searched: str
    num_queries: int
    overlap_10: float
    recall_100: float
    teacher_ndcg: float | None = None
    student_ndcg: float | None = None

    def as_details(self) -> dict[str, Any]:
        """For a manifest."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class TorchEncoder:
    """A torch encoder in the place of an exported one; one text a run, normalised."""

    def __init__(self, tower: Tower, model: torch.nn.Module, dim: int, space: str) -> None:
        self.dim = dim
        self.max_tokens = tower.max_tokens
        self.embedding_space = space
        self._tower = tower
        self._model = model
        self._device = next(model.parameters()).device

    def tokenise(self, text: str) -> list[int]:
        """Token ids of one text, truncated to `max_tokens`."""
        ids: list[int] = self._tower.tokenise([text])["input_ids"][0].tolist()
        return ids

    @torch.inference_mode()
    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        """The normalised embedding (dim,) of one tokenised text."""
        ids = torch.tensor([list(token_ids)], device=self._device)
        output = self._model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        embedding: Embeddings = functional.normalize(output.float(), dim=-1)[0].cpu().numpy()
        return embedding

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """The normalised embeddings (n, dim) of `texts`, one after the other."""
        return np.stack([self.embed(self.tokenise(text)) for text in texts])


class IndexAgreement:
    """An index, as it stands and as it would be without compression, to compare encoders on."""

    def __init__(self, directory: Path) -> None:
        """Open the index in `directory`; its files are verified.

        :raises ManifestError: When it is no index.
        :raises CorruptArtefactError: When a file was altered.
        """
        self.manifest = load_manifest(directory, "index")
        effort = SearchEffort(**self.manifest.details["search_effort"])
        self.index = FaissIndex.load(directory / INDEX_FILE, effort)
        self._directory = directory
        self._owners = np.load(directory / PASSAGE_TO_DOCUMENT_FILE, allow_pickle=False)

    def measure(
        self,
        teacher: TorchEncoder,
        student: TorchEncoder,
        queries: Sequence[str],
        judged: tuple[Path, Path] | None,
        progress: TrainingProgress,
    ) -> list[Agreement]:
        """Compare on `queries`, by exact search over what the index keeps, then as it searches.

        :param judged: Where queries and qrels are.
        :raises CollectionError: When the judgements are bad or name what is not there.
        :raises InvalidArgumentError: When the index cannot give embeddings back.
        """
        named = [Query(str(number), text) for number, text in enumerate(queries)]
        store = DocumentStore(self._directory / DOCUMENTS_FILE)
        found = []
        ways: Mapping[str, VectorIndex] = {
            "exact": self._exact(progress),
            "as served": self.index,
        }
        for way, index in ways.items():
            teacher_retriever, student_retriever = (
                SearcherRetriever(self._searcher(encoder, index, store))
                for encoder in (teacher, student)
            )
            progress.stage(f"Teacher and student, {way}", 2 * len(named))
            runs = []
            for retriever in (teacher_retriever, student_retriever):
                runs.append(run_queries(retriever, named, top_k=_DEEP, threads=1))
                progress.advance(len(named))
            ndcg: dict[str, float] = {}
            if judged is not None:
                queries_path, qrels_path = judged
                judgements = match_judgements(
                    read_queries(queries_path),
                    read_qrels(qrels_path),
                    teacher_retriever,
                    qrels_path=qrels_path,
                )
                for name, retriever in (
                    ("teacher", teacher_retriever),
                    ("student", student_retriever),
                ):
                    run = run_queries(retriever, judgements.queries, top_k=_NEAREST, threads=1)
                    ndcg[f"{name}_ndcg"] = evaluate(run, judgements.qrels, [NDCG])[NDCG]
            found.append(Agreement(way, len(named), *_shares(*runs), **ndcg))
        store.close()
        return found

    def _searcher(
        self, encoder: TorchEncoder, index: VectorIndex, store: DocumentStore
    ) -> Searcher:
        manifest = Manifest("encoder", encoder.dim, encoder.embedding_space, {}, "")
        return Searcher(
            encoder=encoder,
            index=index,
            passage_to_document=self._owners,
            store=store,
            index_manifest=self.manifest,
            encoder_manifest=manifest,
        )

    def _exact(self, progress: TrainingProgress) -> FaissIndex:
        """The index's embeddings, in memory and compared one by one."""
        size = self.index.size
        exact = FaissIndex.create("Flat", self.index.dim)
        progress.stage("What the index keeps", size)
        for start in range(0, size, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, size), dtype=np.int64)
            exact.add(self.index.embeddings(rows))
            progress.advance(len(rows))
        return exact


def _shares(teacher: Run, student: Run) -> tuple[float, float]:
    """The share of the teacher's 10 best documents in the student's 10 and 100 best."""
    shares = []
    for depth in (_NEAREST, _DEEP):
        each = []
        for query_id, scores in teacher.items():
            nearest = list(scores)[:_NEAREST]
            reached = set(list(student[query_id])[:depth])
            each.append(len(reached.intersection(nearest)) / len(nearest))
        shares.append(fmean(each))
    return shares[0], shares[1]
