"""`swiftlet export`: a model written as an encoder directory, or one measured again."""

from collections.abc import Sequence
from pathlib import Path

from export.encoder_directory import export_encoder
from export.errors import ExportError
from export.report import EncoderReport
from export.source import PoolingMode
from export.verification import verify_encoder
from retrieval.encoder import MODEL_FILES, Precision
from retrieval.errors import InvalidArgumentError
from swiftlet.terminal import messages, output, print_note


def export_model(
    model: str,
    out: Path,
    *,
    name: str | None,
    pooling: PoolingMode | None,
    max_tokens: int | None,
    precisions: Sequence[Precision],
    calibrate: Path | None,
    collection: Path | None,
    split: str,
    overwrite: bool,
) -> None:
    """Export `model` into `out`, and print what was measured on the way."""
    manifest = export_encoder(
        model,
        out,
        name=name,
        pooling=pooling,
        max_tokens=max_tokens,
        precisions=precisions or tuple(MODEL_FILES),
        calibrate=calibrate,
        collection=collection,
        split=split,
        overwrite=overwrite,
        progress=_say,
    )
    output.print(f"[bold]{out}[/]: {manifest.dim} dimensions", soft_wrap=True)
    _show(EncoderReport.of_manifest(manifest))


def verify_export(
    model: str,
    out: Path,
    *,
    name: str | None,
    pooling: PoolingMode | None,
    max_tokens: int | None,
    precisions: Sequence[Precision],
    calibrate: Path | None,
    collection: Path | None,
    split: str,
    overwrite: bool,
) -> None:
    """Measure what lies in `out` against `model`, and print it; nothing is written.

    :raises ExportError: After printing, when fp32 or the default precision is not good enough.
    """
    writing = {"--name": name, "--calibrate": calibrate, "--overwrite": overwrite or None}
    if contradicting := [option for option, value in writing.items() if value is not None]:
        raise InvalidArgumentError(
            f"{contradicting[0]} is for writing {out}, but --verify only measures what is there"
        )
    report = verify_encoder(
        model,
        out,
        pooling=pooling,
        max_tokens=max_tokens,
        precisions=precisions or None,
        collection=collection,
        split=split,
        progress=_say,
    )
    _show(report, leave_out=("fp32", report.default))
    shortfalls = report.shortfalls()
    for precision in ("fp32", report.default):
        if precision in shortfalls:
            raise ExportError(f"{out} is not good enough: {shortfalls[precision]}")


def _show(report: EncoderReport, leave_out: Sequence[str] = ()) -> None:
    for table in report.tables():
        output.print(table)
    for precision, sentence in report.shortfalls().items():
        if precision not in leave_out:
            print_note(sentence)


def _say(stage: str) -> None:
    messages.print(f"{stage} …")
