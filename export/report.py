"""Reports of an encoder's measurements, for manifests and as tables."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rich.table import Table

from export.default_precision import shortfall
from export.parity import Parity
from export.quality import METRIC, QualityChange
from swiftlet.encoders.encoder import MODEL_FILES, Precision
from swiftlet.manifest import Manifest


@dataclass(frozen=True, slots=True)
class VariantReport:
    """The measurements of one precision.

    :param seconds: Median seconds to encode a text: threads -> tokens -> seconds.
    """

    precision: Precision
    size_bytes: int
    parity: Parity
    quality: QualityChange | None = None
    seconds: Mapping[int, Mapping[int, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EncoderReport:
    """The measurements of all precisions of an encoder, and its default precision."""

    variants: tuple[VariantReport, ...]
    default: Precision

    @classmethod
    def of_manifest(cls, manifest: Manifest) -> "EncoderReport":
        """The measurements in `manifest`, which the export wrote."""
        details = manifest.details
        variants = [
            VariantReport(
                precision,
                manifest.files[MODEL_FILES[precision]].size_bytes,
                *_parity_of(precision, details["parity"][precision]),
            )
            for precision in details["precisions"]
        ]
        return cls(tuple(variants), details["default_precision"])

    def shortfalls(self) -> dict[Precision, str]:
        """The precisions that are not good enough, each with the reason as a sentence."""
        found = {v.precision: shortfall(v.precision, v.parity, v.quality) for v in self.variants}
        return {precision: sentence for precision, sentence in found.items() if sentence}

    def tables(self) -> Iterator[Table]:
        """Parity, quality and size; then latency, if it was measured."""
        yield self._parity_table()
        if any(variant.seconds for variant in self.variants):
            yield self._latency_table()

    def _parity_table(self) -> Table:
        table = Table(title="Parity with torch", title_justify="left")
        table.add_column("precision")
        for name in ("mean cosine", "smallest", "MB"):
            table.add_column(name, justify="right")
        qualities = [variant.quality for variant in self.variants if variant.quality]
        if qualities:
            table.add_column(METRIC, justify="right")
            table.add_column("change", justify="right")
            table.caption = f"{METRIC} by exact search on {qualities[0].collection} "
            table.caption += qualities[0].split
        for variant in self.variants:
            is_default = variant.precision == self.default
            row = [
                f"{variant.precision} (default)" if is_default else variant.precision,
                f"{variant.parity.mean_cosine:.6f}",
                f"{variant.parity.min_cosine:.6f}",
                f"{variant.size_bytes / 1e6:.1f}",
            ]
            if variant.quality:
                row += [f"{variant.quality.quantised:.4f}", f"{variant.quality.change:+z.4f}"]
            elif qualities:
                row += [f"{qualities[0].fp32:.4f}", ""]
            table.add_row(*row)
        return table

    def _latency_table(self) -> Table:
        lengths = sorted(
            {n for variant in self.variants for of in variant.seconds.values() for n in of}
        )
        table = Table(title="Latency, p50 in ms, by tokens of the text", title_justify="left")
        table.add_column("precision")
        for name in ("threads", *map(str, lengths)):
            table.add_column(name, justify="right")
        table.caption = "with tokenising, the precisions measured in alternation"
        for variant in self.variants:
            for threads, of_length in variant.seconds.items():
                figures = [f"{of_length[n] * 1000:.3f}" for n in lengths]
                table.add_row(variant.precision, str(threads), *figures)
        return table


def parity_details(
    precision: Precision, parity: Parity, quality: QualityChange | None
) -> dict[str, Any]:
    """The entry of `precision` in the parity of a manifest."""
    details = {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in asdict(parity).items()
    }
    if quality is not None:
        details[METRIC] = {
            "collection": quality.collection,
            "split": quality.split,
            "fp32": quality.fp32,
            precision: quality.quantised,
            "change": quality.change,
        }
    return details


def _parity_of(
    precision: Precision, details: Mapping[str, Any]
) -> tuple[Parity, QualityChange | None]:
    parity = Parity(**{field.name: details[field.name] for field in fields(Parity)})
    if (found := details.get(METRIC)) is None:
        return parity, None
    return parity, QualityChange(
        found["collection"], found["split"], found["fp32"], found[precision]
    )
