"""Adapts a query encoder to an index."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from swiftlet import encoders
from swiftlet.encoders.encoder import OnnxEncoder, Precision
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.experiment import JudgedSet, run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import Retriever
from swiftlet.evaluation.significance import SIGNIFICANT, PairedTest, paired_t_test
from swiftlet.index.query_encoder import put_query_encoder
from swiftlet.manifest import FILE_NAME as MANIFEST
from swiftlet.manifest import Manifest, change_details, check_embedding_space, read_manifest
from swiftlet.publication import discard
from training.adaptation.texts import AdaptationTexts, known_items
from training.distillation.distill import distill
from training.distillation.overlap import NDCG, IndexComparison
from training.distillation.settings import Distillation, Judged
from training.distillation.teacher import load_query_encoder
from training.distillation.texts import read_query_texts
from training.errors import TrainingStoppedError
from training.loop.log import TrainingProgress
from training.model.folders import is_exported, is_exported_lookup
from training.model.towers import Tower, TowerSettings
from training.model.trained import QUERY_ENCODER, trained_encoder
from training.recipes.validation_errors import describe_errors

Export = Callable[..., object]
"""Writes an encoder in ONNX: `export.encoder_directory.export_encoder`."""

ADAPTED = "-adapted"
"""How the name of an adapted encoder ends."""

AGAIN = "interrupted: run the same command again to continue"
_LATER = Judged(queries="later", qrels="later")  # for settings that are checked before
_PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
# The average loses less on queries unlike sentences (docs/decisions/adaptation.md).
SETTINGS: dict[str, Any] = {
    "project": False, "validation": 200, "warmup_steps": 20, "batch_size": 64, "average": 0.3,
}  # fmt: skip
OF_LOOKUP: dict[str, Any] = {"learning_rate": 3e-3, "epochs": 5.0, "every": 200}
OF_LAYERS: dict[str, Any] = {"learning_rate": 3e-4, "epochs": 2.0, "every": 50}


class Adaptation:
    """Adapts a query encoder to an index by its sentences, and by judged queries if there are any.

    The encoder imitates the document encoder, and learns to find the document of each sentence
    (the inverse cloze task: Lee et al. 2019, "Latent Retrieval for Weakly Supervised Open Domain
    Question Answering", section 3).
    """

    def __init__(
        self,
        student: Path,
        document_encoder: Path,
        export: Export,
        *,
        queries: Sequence[Path] = (),
        progress: TrainingProgress,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Check what is given before any work.

        :param student: An exported encoder, or the query encoder of a training run.
        :param queries: Query logs to imitate the document encoder on, too.
        :param settings: Other settings of the distillation.
        :raises ModelError: When the student cannot be trained.
        :raises EmbeddingSpaceMismatch: When it is of another space than the document encoder.
        :raises CollectionError: When a query log is bad or empty.
        """
        self._student, self._teacher, self._queries = student, document_encoder, tuple(queries)
        self._export = export
        self._progress, self._seed, self._settings = progress, seed, dict(settings or {})
        self._name = _name(student)
        teacher = read_manifest(document_encoder, "encoder")
        self._distillation(student, (_LATER,))
        self._before, _ = load_query_encoder(TowerSettings(model=student))
        check_embedding_space(
            f"the query encoder {self._name!r}",
            self._before.embedding_space,
            self._before.dim,
            teacher,
        )
        for log in queries:
            list(read_query_texts(log))
        Tower.load(TowerSettings(model=student))

    def __call__(self, index: Path, working: Path) -> Manifest | None:
        """Put the adapted encoder into an unpublished index if it is significantly better.

        :returns: The index's new manifest, or None.

        :raises InvalidArgumentError: When the index has too few sentences.
        :raises RetrievalError: When training or export fails.
        """
        encoder, figures = self.adapt(index, working / "adaptation")
        before, after = figures["ndcg@10"]["before"], figures["ndcg@10"]["after"]
        better = after > before and figures["p"] <= SIGNIFICANT
        self._progress.note(
            f"the query encoder {self._name} is {'' if better else 'not '}adapted: nDCG@10 of "
            f"{figures['held_out']} held-out sentences, each a query for its document, was "
            f"{before:.3f}, and adapted {after:.3f} (p = {figures['p']:.1g})"
            + (": searches of this index use it; hybrid search was not tested" if better else "")
        )
        return put_query_encoder(encoder, index, {"query_encoder": figures}) if better else None

    def adapt(self, index: Path, working: Path) -> tuple[Path, dict[str, Any]]:
        """The directory of the adapted encoder in `working`, and what the index's manifest says."""
        texts = known_items(index, working, self._seed)
        encoder = self.train(index, texts, working)
        comparison = IndexComparison(index, self._before)
        before, after = (
            comparison.retriever(each)
            for each in (self._before, OnnxEncoder.load(encoder, role="query"))
        )
        test = compare(before, after, comparison.judgements(texts.test))
        return encoder, {
            "name": self.adapted_name,
            "held_out": test.num_queries,
            "ndcg@10": {"before": round(test.baseline_mean, 4), "after": round(test.mean, 4)},
            "p": test.p_value,
        }

    def train(self, index: Path, texts: AdaptationTexts, working: Path) -> Path:
        """Train and export the encoder; an interrupted training goes on if the texts are the same.

        It runs in the precision of the one that it begins with.

        :returns: The encoder directory, in `working`.
        :raises RetrievalError: When training or export fails.
        """
        adapted = working / "encoder"
        settings = self._distillation(index, texts.training)
        key = f"{texts.key}{settings.model_dump_json()}".encode()
        run = working / f"run-{hashlib.sha256(key).hexdigest()[:12]}"
        if not (run / MANIFEST).is_file():
            try:
                distill(settings, run, resume=True, compare=False, progress=self._progress)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(AGAIN) from None
            except TrainingStoppedError as error:
                discard(run)
                reason = str(error).partition(":")[0]
                lower = f"pass --set learning_rate=… below {settings.learning_rate:g}"
                raise TrainingStoppedError(f"{reason}: {lower}") from error
        self._progress.begin("Exporting", None)
        self._export(
            run / QUERY_ENCODER,
            adapted,
            name=self.adapted_name,
            origin=f"{self._name}, adapted to an index",
            precisions=_PRECISIONS,
            overwrite=True,
        )
        # A test on held-out queries judges it, so that it need not be as close to torch as int8
        # must be otherwise.
        if (precision := getattr(self._before, "precision", None)) in _PRECISIONS:
            change_details(adapted, {"default_precision": precision})
        self._progress.begin("Comparing query encoders", None)
        return adapted

    @property
    def adapted_name(self) -> str:
        """The name of the adapted encoder."""
        return f"{self._name.removesuffix(ADAPTED)}{ADAPTED}"

    def _distillation(self, index: Path, judged: tuple[Judged, ...]) -> Distillation:
        of_kind = OF_LOOKUP if is_exported_lookup(self._student) else OF_LAYERS
        settings = {
            "teacher": str(self._teacher),
            "student": str(self._student),
            "queries": tuple(map(str, self._queries)),
            "index": str(index),
            "judged": judged,
            "seed": self._seed,
            **SETTINGS,
            **of_kind,
            **self._settings,
        }
        try:
            return Distillation.model_validate(settings)
        except ValidationError as error:
            found = describe_errors(error, Distillation, lambda name: f"--set {name}")
            raise InvalidArgumentError(found) from error


def _name(encoder: Path) -> str:
    trained = trained_encoder(encoder)
    if trained is not None:
        return trained.name
    found = encoders.find_shipped(encoder)
    details = read_manifest(found, "encoder").details if is_exported(found) else {}
    return str(details.get("name", encoder.name))


def compare(before: Retriever, after: Retriever, judgements: JudgedSet) -> PairedTest:
    """Test the nDCG@10 of the retriever `after` against the retriever `before`."""
    values = []
    for retriever in (after, before):
        run = run_queries(retriever, judgements.queries, top_k=10)
        values.append(evaluate_per_query(run, judgements.qrels, [NDCG])[NDCG])
    return paired_t_test(*values)
