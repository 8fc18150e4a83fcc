"""Adapts a query encoder to an index that is being built; needs the extra `export`."""

import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from export.encoder_directory import export_encoder
from swiftlet.indexing.query_encoder import put_query_encoder
from swiftlet.indexing.tuning import TUNED_CANDIDATES, recall
from swiftlet.retrieval.directory import documents
from swiftlet.retrieval.embedding_space import check_embedding_space
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.engines import open_index
from swiftlet.retrieval.errors import InvalidArgumentError
from swiftlet.retrieval.manifest import Manifest, read_manifest
from swiftlet.retrieval.types import Document
from training.distillation.distill import distill
from training.distillation.sentences import sample_sentences
from training.distillation.settings import Distillation
from training.distillation.teacher import load_encoder
from training.distillation.texts import read_query_texts
from training.loop.log import TrainingProgress
from training.model.exported import is_exported_lookup
from training.model.towers import Tower, TowerSettings
from training.model.trained import QUERY_ENCODER, trained_encoder

_SENTENCES = 12_000
_HELD_OUT, _FEWEST_HELD_OUT = 500, 200
# Without the average, sentences come nearer to the teacher, and queries further from it.
SETTINGS: dict[str, Any] = {"epochs": 4.0, "project": False, "average": 0.5}
OF_LOOKUP: dict[str, Any] = {"learning_rate": 3e-3, "batch_size": 256}
OF_LAYERS: dict[str, Any] = {"learning_rate": 3e-4, "batch_size": 64}


class Adaptation:
    """Adapts a query encoder to the sentences of an index, by distillation without any labels.

    Each tenth document is held out. The share of the ten best passages of the document encoder
    that the query encoder finds for its sentences (overlap@10) is measured before and after.
    """

    def __init__(
        self,
        student: Path,
        document_encoder: Path,
        *,
        queries: Sequence[Path] = (),
        progress: TrainingProgress,
        seed: int = 0,
    ) -> None:
        """Check what is given before a build.

        :param student: An exported look-up encoder, or the query encoder of a training run.
        :param queries: Query logs to train on, too.
        :raises ModelError: When the student cannot be trained.
        :raises EmbeddingSpaceMismatch: When it is of another space than the document encoder.
        :raises CollectionError: When a query log is bad or empty.
        """
        self._student, self._teacher, self._queries = student, document_encoder, tuple(queries)
        self._progress, self._seed = progress, seed
        trained = trained_encoder(student)
        self._name = student.name if trained is None else trained.name
        teacher = read_manifest(document_encoder, "encoder")
        Tower.load(TowerSettings(model=student))
        self._before, _ = load_encoder(TowerSettings(model=student))
        check_embedding_space(
            f"the query encoder {self._name!r}",
            self._before.embedding_space,
            self._before.dim,
            teacher,
        )
        for log in queries:
            list(read_query_texts(log))

    def __call__(self, index: Path, working: Path) -> Manifest | None:
        """Put the adapted encoder into an unpublished index if it is better: its new manifest.

        :raises InvalidArgumentError: When the index has too few sentences.
        :raises RetrievalError: When training or export fails.
        """
        encoder, figures = self.adapt(index, working / "adaptation")
        before, after = figures["overlap@10"]["before"], figures["overlap@10"]["after"]
        better = after > before
        self._progress.note(
            f"the query encoder {self._name} is {'' if better else 'not '}adapted: for "
            f"{figures['held_out']} sentences held out it found {before:.1%} of the document "
            f"encoder's ten best passages, and adapted {after:.1%}"
            + (": searches of this index use it" if better else "")
        )
        return put_query_encoder(encoder, index, {"query_encoder": figures}) if better else None

    def adapt(self, index: Path, working: Path) -> tuple[Path, dict[str, Any]]:
        """The directory of the adapted encoder in `working`, and what the index's manifest says."""
        sentences = sample_sentences(_training(index), _SENTENCES, self._seed)
        held_out = self._held_out(index, set(sentences))
        log, run, adapted = (working / name for name in ("sentences.jsonl", "run", "encoder"))
        working.mkdir(exist_ok=True)
        log.write_text("".join(json.dumps({"text": each}) + "\n" for each in sentences), "utf-8")
        shutil.rmtree(run, ignore_errors=True)  # of an interrupted build
        is_lookup = is_exported_lookup(self._student)
        settings = Distillation(
            teacher=str(self._teacher),
            student=str(self._student),
            queries=(str(log), *map(str, self._queries)),
            seed=self._seed,
            **SETTINGS,
            **(OF_LOOKUP if is_lookup else OF_LAYERS),
        )
        try:
            distill(settings, run, progress=self._progress)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # the way to resume is that of the build
        self._progress.begin("Comparing query encoders", None)
        name = f"{self._name}-adapted"
        origin = f"{self._name}, adapted by swiftlet index --adapt-queries"
        export_encoder(
            run / QUERY_ENCODER,
            adapted,
            name=name,
            origin=origin,
            precisions=["int8"],
            overwrite=True,
        )
        found = open_index(index, read_manifest(index).details)
        expected = encode_texts(OnnxEncoder.load(self._teacher), held_out)
        nearest = np.stack([found.search(each, TUNED_CANDIDATES)[1][:10] for each in expected])
        overlaps = {
            when: round(
                recall(found, encode_texts(encoder, held_out), nearest, TUNED_CANDIDATES), 4
            )
            for when, encoder in (("before", self._before), ("after", OnnxEncoder.load(adapted)))
        }
        return adapted, {"name": name, "held_out": len(held_out), "overlap@10": overlaps}

    def _held_out(self, index: Path, known: set[str]) -> list[str]:
        held_out = islice(documents(index), 9, None, 10)
        found = sample_sentences(held_out, _HELD_OUT, self._seed)
        sentences = [each for each in found if each not in known]
        if len(sentences) < _FEWEST_HELD_OUT:
            raise InvalidArgumentError(
                f"the corpus is too small to adapt to: each tenth document is held out, and these "
                f"have {len(sentences)} sentences of their own, at least {_FEWEST_HELD_OUT} are "
                "needed: leave out --adapt-queries"
            )
        return sentences


def _training(index: Path) -> Iterator[Document]:
    return (each for number, each in enumerate(documents(index)) if number % 10 != 9)
