"""A training run: its stages one after the other, from wherever an earlier process left off."""

from collections.abc import Mapping
from typing import Any

from training.checkpoints import read_checkpoint, write_checkpoint
from training.context import BEST, CHECKPOINT, STAGES, TrainingContext
from training.position import Position
from training.stage import Stage, StageRun


class TrainingRun:
    """Trains stage by stage; a killed run loses what came after its last checkpoint."""

    def __init__(self, context: TrainingContext, *, resume: bool = False) -> None:
        """Start, or go on from the directory's checkpoint if there is one.

        :raises CorruptArtefactError: When the checkpoint was altered.
        """
        self.context = context
        self._position = Position()
        self._resumed: Mapping[str, Any] | None = None
        self._num_stages_seen = 0
        if resume and (context.directory / CHECKPOINT).is_dir():
            self._go_on(read_checkpoint(context.directory / CHECKPOINT))
        else:
            self._forget_log(0)

    def train(self, stage: Stage) -> None:
        """Run a stage, or what is left of it, or nothing where an earlier process finished it.

        :raises CollapsedError: When the embeddings collapsed.
        :raises TrainingStoppedError: When the loss is no number any more.
        :raises StorageError: When the file system refuses.
        """
        number = self._num_stages_seen
        self._num_stages_seen += 1
        if self._position.stage > number:
            return
        if self._position.stage < number:
            self._position = Position(stage=number, seconds=self._position.seconds)
        stage_run = StageRun(self.context, stage, self._position, self._resumed)
        self._resumed = None  # which would take up memory as long as the stage goes on
        stage_run.run()
        context = self.context
        if context.recipe.keep_stages and context.accelerator.is_main_process:
            state = {"model": context.dual_encoder.state_dict()}
            place = context.directory / STAGES / stage.name
            write_checkpoint(place, state, dim=context.dual_encoder.dim)

    def take_best(self) -> dict[str, Any]:
        """Return to the evaluation with the highest nDCG@10 of the stages that choose.

        :returns: Its stage, step and nDCG@10.
        :raises ManifestError: When no stage chose.
        """
        best = read_checkpoint(self.context.directory / BEST)
        self.context.dual_encoder.load_state_dict(best.pop("model"))
        return best

    def _go_on(self, state: dict[str, Any]) -> None:
        context = self.context
        self._position = Position(**state["position"])
        self._resumed = state
        context.dual_encoder.load_state_dict(state["model"])
        if not state["document_unchanged"]:
            context.encoder.frozen_outputs = None
        self._forget_log(state["log_size"])

    def _forget_log(self, size_bytes: int) -> None:
        """Take back what a killed process logged after its last checkpoint."""
        if self.context.accelerator.is_main_process:
            self.context.log.truncate(size_bytes)
        self.context.accelerator.wait_for_everyone()
