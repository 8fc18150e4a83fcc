"""The settings of a distillation."""

from pathlib import Path
from typing import Annotated, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator

from swiftlet import encoders
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.opening import is_asked
from training.loop.optimisation import Optimiser
from training.model.folders import is_exported, is_exported_lookup
from training.model.towers import TowerSettings
from training.recipes.settings import PoolingName
from training.tables import Count, FloatingPoint, Positive

Distance = Literal["euclidean", "cosine"]
RankingLoss = Literal["kl", "margin_mse"]

LOOKUP = "lookup"
"""The student that is a table of token vectors, which starts from the teacher's."""

_LOOKUP_DEFAULTS = {"distance": "cosine", "learning_rate": 3e-3, "batch_size": 512, "epochs": 4.0}
_PAIRS_DEFAULTS = {"pairs": True, "distance": "cosine", "project": True, "batch_size": 64}
_PAIRS_DEFAULTS |= {"passage_scores": 1.0, "warmup_steps": 50}


def _fast_precision() -> FloatingPoint:
    """The precision in which this processor trains layers fastest."""
    known = torch.cpu.get_capabilities()
    return "bf16" if known.get("avx512_bf16") or known.get("amx_bf16") else "fp32"


def _is_lookup(student: object) -> bool:
    """Whether a student is a look-up table: a new one, or one that was exported."""
    return student == LOOKUP or (isinstance(student, str) and is_exported_lookup(_folder(student)))


def _is_exported(model: object) -> bool:
    return isinstance(model, str) and is_exported(_folder(model))


def _is_asked(model: object) -> bool:
    return isinstance(model, str) and is_asked(model)


def _folder(model: str) -> Path:
    return encoders.find_shipped(Path(model))


class Judged(BaseModel):
    """The paths of queries and of qrels for documents of the index.

    `weight` is the weight of the contrastive term for these queries. `sentences` says that they are
    sentences of the documents.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    queries: str
    qrels: str
    weight: Positive = 1.0
    sentences: bool = False


class Distillation(BaseModel):
    """The teacher, the student, the texts and the training of the student.

    :param teacher: The query encoder to imitate: a directory or a name on the hub. Or an encoder
        that `swiftlet export` wrote, the name of one that ships, a function (MODULE:FUNCTION) or
        the address of an OpenAI-compatible API (docs/encoders.md); then the distance is the cosine
        by default, since its outputs are normalised. Without one, the student learns `pairs`.
    :param pairs: Learn the passages of `index` with their vectors. The student is then by default
        the two layers that ship, with a projection, and there are other defaults: the cosine, a
        learning rate of 0.0005 (look-up: 0.003), batches of 64, 1.5 epochs (look-up: 2), and
        for layers bf16 if the processor has instructions for it.
    :param passage_scores: Weight of a term of `pairs`: how the student's softmax of the scores of
        passages differs from that of the vector learnt. The passages' titles, sentences and spans
        of words are then learnt, too, by this term alone: at most `parts` times as many as there
        are passages, and 50,000. The run takes its last step, or the one that the verdict is best
        of, the closed form among them.
    :param projection_only: Fit the projection by ridge regression, and train nothing.
    :param minutes: Training ends at the first step after so many minutes.
    :param student: The initial checkpoint of the student; by default `layers` of the teacher.
        "lookup" is a table of token vectors without a transformer, with defaults of its own: the
        cosine, a learning rate of 0.003, batches of 512 and 4 epochs. So is a look-up encoder that
        `swiftlet export` wrote, or the one that ships, by its name.
    :param pooling: The pooling of the student's checkpoint, if the checkpoint does not define it.
    :param project: Whether the student gets a projection to the teacher's width; by default, if
        `student` is given.
    :param freeze_token_embeddings: Keep the student's token embeddings as they are. With a large
        vocabulary, training takes less time and memory, and words that are in no text stay known.
    :param queries: Query logs, as `training.distillation.texts.read_query_texts` reads them.
    :param corpora: Corpora or indexes, for at most `sentences` sentences and titles.
    :param distance: The squared Euclidean distance to the teacher's output before normalisation
        (004, section 2.2), or one minus the cosine.
    :param ranking: Weight of the ranking loss on the documents of `index`.
    :param ranking_teacher: A re-ranker that `swiftlet export` wrote. Its scores are then the
        targets of the ranking loss, of judged queries alone.
    :param documents: The number of passages per query in the ranking loss: as many of the teacher's
        best, and of the best by words.
    :param judged: Queries with judgements, which the student imitates the teacher on, too, and
        learns from by a contrastive term over the passages of `index`. Its factor of scores is
        `judged_score_factor`. A passage is no negative if the teacher scores it above
        `teacher_share` of the way from the mean of all passages to the best relevant passage: it
        may be relevant, too. The run takes its last step, since the cosine falls while documents
        are learnt.
    :param average: The share of the initial weights in the final ones, by which a student that is
        trained further on few texts loses less on other texts (Wortsman et al., "Robust fine-tuning
        of zero-shot models", 2022).
    :param validation: The number of held-out texts. Their cosine is measured every `every` steps,
        with `passage_scores` at least ten times; training ends when it has not risen in `patience`
        evaluations.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    teacher: str | None = None
    student: str | None = None
    layers: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    pooling: PoolingName | None = None
    project: bool | None = None
    max_tokens: Count | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    freeze_token_embeddings: bool = False
    trust_remote_code: bool = False
    queries: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ()
    sentences: Count = 200_000
    distance: Distance = "euclidean"
    index: str | None = None
    pairs: bool = False
    passage_scores: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    parts: Count = 8
    projection_only: bool = False
    minutes: Positive | None = None
    ranking: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    ranking_loss: RankingLoss = "kl"
    ranking_teacher: str | None = None
    documents: Count = 8
    score_factor: Positive = 20.0
    judged: tuple[Judged, ...] = ()
    judged_score_factor: Positive = 20.0
    teacher_share: Annotated[float, Field(gt=0, le=1)] = 0.95
    epochs: Positive = 10.0
    batch_size: Annotated[int, Field(ge=2)] = 64
    learning_rate: Positive = 5e-4
    warmup_steps: Annotated[int, Field(ge=0)] = 1000
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    precision: FloatingPoint = "fp32"
    average: Annotated[float, Field(ge=0, lt=1)] = 0.0
    validation: Count = 2000
    every: Count = 500
    patience: Count = 5
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_student(cls, given: dict[str, object]) -> dict[str, object]:
        of_training = sorted({"minutes", "epochs", "learning_rate", "batch_size"} & given.keys())
        if given.get("projection_only") and of_training:
            raise ValueError(
                f"projection_only trains nothing: leave out {' and '.join(of_training)}, or it"
            )
        if given.get("pairs", given.get("teacher") is None):
            named = {} if given.get("layers") else {"student": DEFAULT_QUERY_ENCODER.name}
            given = {**_PAIRS_DEFAULTS, **named, **given}
            if _is_lookup(given.get("student")):
                return {"learning_rate": 3e-3, "epochs": 2.0, **given}
            of_layers = {"learning_rate": 5e-4, "epochs": 1.5, "precision": _fast_precision()}
            return {**of_layers, **given}
        if _is_lookup(given.get("student")):
            return {**_LOOKUP_DEFAULTS, **given}
        normalises = _is_exported(teacher := given.get("teacher")) or _is_asked(teacher)
        return {"distance": "cosine", **given} if normalises else given

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if not (self.pairs or self.queries or self.corpora or self.judged):
            raise ValueError(
                "there are no texts: name queries (--queries), a corpus (--corpus), or both; or "
                "learn from the passages of an index, too (--index INDEX --pairs)"
            )
        if self.teacher is None:
            self._goes_without_teacher()
        if self.projection_only and not self.projects:
            raise ValueError("projection_only needs a projection: leave it out, or set project")
        if self.student is None and _is_asked(self.teacher):
            raise ValueError(
                f"the teacher {self.teacher} has no layers to keep: name a student, such as "
                f"{DEFAULT_QUERY_ENCODER.name}"
            )
        if self.student is None and self.layers is None:
            raise ValueError(
                "the student would be the teacher: name the layers to keep, or another checkpoint "
                "as the student"
            )
        projects = self.project and not self.pairs
        others = self.layers is not None or self.pooling is not None or projects
        if self.student and _is_lookup(self.student) and (others or self.freeze_token_embeddings):
            raise ValueError(
                "a look-up encoder has no layers, pooling or projection, and nothing but token "
                "embeddings: leave these settings out"
            )
        if self.average and self.projects:
            raise ValueError(
                "the average is with the initial weights, but a new projection has none: leave out "
                "either of the two"
            )
        if self.ranking_teacher is not None and not self.ranking:
            raise ValueError("ranking_teacher is for the ranking term: set ranking to 1, too")
        if self.index is None:
            terms = {"pairs": self.pairs, "the ranking term": self.ranking, "judged": self.judged}
            for name, given in terms.items():
                if given:
                    raise ValueError(f"{name} needs an index: name the index of the documents")
        return self

    def _goes_without_teacher(self) -> None:
        if self.index is None:
            raise ValueError("there is nothing to imitate: name a teacher, an index or both")
        if self.queries:
            raise ValueError("queries need a teacher, which gives their vectors: name it, too")
        if not self.pairs or self.corpora or self.judged or self.student in (None, LOOKUP):
            named = {
                "no pairs": not self.pairs,
                "corpora": self.corpora,
                "judged": self.judged,
                "layers": self.layers is not None,
                "a new look-up table": self.student == LOOKUP,
            }
            given = ", ".join(name for name, is_given in named.items() if is_given)
            raise ValueError(
                "without a teacher an encoder, such as all-MiniLM-L6-v2-query-lookup, learns from "
                f"the index's own texts: leave out {given}, or name a teacher"
            )

    @property
    def learns_scores(self) -> bool:
        """Whether the scores of the index's passages are learnt."""
        return self.pairs and self.passage_scores > 0 and not self.projection_only

    @property
    def projects(self) -> bool:
        """Whether the student gets a projection."""
        other = (
            self.student is not None and self.student != LOOKUP and not _is_exported(self.student)
        )
        return other if self.project is None else self.project

    def teacher_tower(self) -> TowerSettings:
        """How the teacher is loaded."""
        return TowerSettings(
            model=str(self.teacher),
            pooling=self.pooling if self.student is None else None,
            trust_remote_code=self.trust_remote_code,
        )

    def student_tower(self) -> TowerSettings:
        """How the student is loaded."""
        same = {"layers", "pooling", "max_tokens", "dropout", "trust_remote_code"}
        return TowerSettings(str(self.student or self.teacher), **self.model_dump(include=same))

    def optimiser(self) -> Optimiser:
        """AdamW's settings."""
        return Optimiser(**self.model_dump(include={*Optimiser.model_fields}))

    def may_change(self) -> frozenset[str]:
        """Settings that may change when a run is resumed."""
        only_compared = set() if self.ranking or self.judged or self.pairs else {"index"}
        return frozenset({"learning_rate", "epochs", "patience", "minutes", *only_compared})
