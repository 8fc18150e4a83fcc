"""What a distillation is asked to do; everything that changes its result."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from training.encoders import PoolingChoice, TowerSettings
from training.recipe import FloatingPoint, Optimiser

Distance = Literal["euclidean", "cosine"]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Distillation(BaseModel):
    """A teacher, a student, the texts they meet on, and how the student learns.

    :param teacher: The query encoder to imitate: a directory or a name on the hub.
    :param student: Another checkpoint to start from; by default the teacher itself, of which
        `layers` are kept.
    :param pooling: How token embeddings become one, for a checkpoint that does not say: that which
        the student starts from.
    :param project: Whether the student gets a learned projection to the teacher's width; by default
        another checkpoint does, and a part of the teacher does not.
    :param queries: Query logs, as `training.distillation.texts.read_query_texts` takes them.
    :param corpora: Corpora, of which at most `sentences` sentences and titles are taken.
    :param distance: What is minimised: the squared Euclidean distance to the teacher's output
        before it is normalised (004, section 2.3), or one minus the cosine.
    :param ranking: Weight of the contrastive term on the documents of `index`.
    :param documents: How many of the teacher's best passages each query brings into that term.
    :param validation: Texts held out, and `every` how many steps they are measured on; training
        ends when they have not come closer `patience` times in a row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    teacher: str
    student: str | None = None
    layers: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    pooling: PoolingChoice | None = None
    project: bool | None = None
    max_tokens: Count | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    trust_remote_code: bool = False
    queries: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ()
    sentences: Count = 200_000
    distance: Distance = "euclidean"
    index: str | None = None
    ranking: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    documents: Count = 8
    score_factor: Positive = 20.0
    epochs: Positive = 10.0
    batch_size: Annotated[int, Field(ge=2)] = 64
    learning_rate: Positive = 5e-4
    warmup_steps: Annotated[int, Field(ge=0)] = 1000
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    precision: FloatingPoint = "fp32"
    validation: Count = 2000
    every: Count = 500
    patience: Count = 5
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if not self.queries and not self.corpora:
            raise ValueError("there is nothing to read: name queries, a corpus or both")
        if self.student is None and self.layers is None:
            raise ValueError(
                "the student would be the teacher: say which layers are kept, or name another "
                "checkpoint as the student"
            )
        if self.ranking and self.index is None:
            raise ValueError("the ranking term needs the index whose documents are ranked")
        return self

    @property
    def projects(self) -> bool:
        """Whether the student gets a projection."""
        return self.student is not None if self.project is None else self.project

    def teacher_tower(self) -> TowerSettings:
        """How the teacher is loaded."""
        return TowerSettings(
            model=self.teacher,
            pooling=self.pooling if self.student is None else None,
            trust_remote_code=self.trust_remote_code,
        )

    def student_tower(self) -> TowerSettings:
        """How the student is loaded."""
        return TowerSettings(
            model=self.student or self.teacher,
            layers=self.layers,
            pooling=self.pooling,
            max_tokens=self.max_tokens,
            dropout=self.dropout,
            trust_remote_code=self.trust_remote_code,
        )

    def optimiser(self) -> Optimiser:
        """AdamW's settings."""
        return Optimiser(
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            warmup_steps=self.warmup_steps,
            schedule=self.schedule,
            batch_size=self.batch_size,
            precision=self.precision,
        )

    def may_change(self) -> frozenset[str]:
        """Settings that may change while a run is interrupted."""
        only_compared = set() if self.ranking else {"index"}
        return frozenset({"learning_rate", "epochs", "patience", *only_compared})
