"""Exports the models of a training run."""

from pathlib import Path

from swiftlet.cli.terminal import messages, print_note
from swiftlet.errors import MissingExtraError
from swiftlet.extras import extra


def has_ended(run: Path | None, *, resume: bool) -> bool:
    """Whether there is nothing to resume but an export, which a note then says."""
    from swiftlet.manifest import FILE_NAME

    if run is None or not resume or not (run / FILE_NAME).is_file():
        return False
    print_note(f"{run} has a finished run, so nothing is trained")
    return True


def export_models(run: Path) -> list[Path]:
    """Write the encoders or the re-ranker of a run in ONNX into its folder `onnx`, once.

    Without the extra `export`, a note says how to do it later.

    :raises RetrievalError: When a model cannot be exported, or the file system refuses.
    :raises KeyboardInterrupt: When it is interrupted; the message says how to go on.
    """
    from training.model.trained import EXPORTED, MODEL, TOWERS

    names = [name for name in (*TOWERS, MODEL) if (run / name).is_dir()]
    try:
        with extra("export"):
            from export.encoder_directory import export_encoder
            from export.reranker_directory import export_reranker
    except MissingExtraError as error:
        print_note(f"{error}; then export {' and '.join(f'{run / name}' for name in names)}")
        return []
    exported = [run / EXPORTED / name for name in names]
    for name, out in zip(names, exported, strict=True):
        if not out.exists():
            messages.print(f"Exporting {name} …")
            write = export_reranker if name == MODEL else export_encoder
            try:
                write(run / name, out)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"interrupted: the same command with --resume exports {name}"
                ) from None
    return exported
