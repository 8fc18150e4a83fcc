"""The measurements of an encoder: whether it is good enough, in the manifest, and as tables."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rich.table import Table

from export.parity import SMALLEST_FP32_COSINE, Parity
from export.quality import METRIC, QualityChange
from swiftlet.encoders.encoder import MODEL_FILES, Precision
from swiftlet.manifest import Manifest

SMALLEST_MEAN_COSINE = 0.99
SMALLEST_COSINE = 0.97
LARGEST_LOSS = 0.005
# fp32 takes four times the memory. Smaller differences depend on the machine and on noise.
_FP32_IS_FASTER = 1.5


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

    @property
    def shortfall(self) -> str | None:
        """The reason why the precision is not good enough, as a sentence; None if it is."""
        smallest_mean, smallest = (
            (SMALLEST_FP32_COSINE, SMALLEST_FP32_COSINE)
            if self.precision == "fp32"
            else (SMALLEST_MEAN_COSINE, SMALLEST_COSINE)
        )
        for name, cosine, least in (
            ("mean", self.parity.mean_cosine, smallest_mean),
            ("smallest", self.parity.min_cosine, smallest),
        ):
            if not cosine >= least:  # NaN is not good enough either
                return (
                    f"the {name} cosine of {self.precision} with torch is {cosine:.6f}, at least "
                    f"{least} is expected"
                )
        if self.quality is not None and self.quality.change < -LARGEST_LOSS:
            return (
                f"{self.precision} loses {-self.quality.change:.4f} {METRIC} on "
                f"{self.quality.collection} {self.quality.split}, at most {LARGEST_LOSS} is "
                "expected"
            )
        return None

    def details(self) -> dict[str, Any]:
        """The entry of the precision in the parity of a manifest."""
        details = {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in asdict(self.parity).items()
        }
        if (quality := self.quality) is not None:
            details[METRIC] = {
                "collection": quality.collection,
                "split": quality.split,
                "fp32": quality.fp32,
                self.precision: quality.quantised,
                "change": quality.change,
            }
        return details

    @classmethod
    def of_manifest(cls, manifest: Manifest, precision: Precision) -> "VariantReport":
        """The measurements in a manifest, which the export wrote."""
        details = manifest.details["parity"][precision]
        parity = Parity(**{field.name: details[field.name] for field in fields(Parity)})
        size_bytes = manifest.files[MODEL_FILES[precision]].size_bytes
        if (found := details.get(METRIC)) is None:
            return cls(precision, size_bytes, parity)
        names = ("collection", "split", "fp32", precision)
        return cls(precision, size_bytes, parity, QualityChange(*(found[name] for name in names)))


def choose_precision(seconds: Mapping[Precision, float], acceptable: set[Precision]) -> Precision:
    """Choose int8, unless it is not `acceptable` or fp32 is clearly faster.

    If neither is acceptable, the choice is between both.

    :param seconds: The time of each precision for the same texts.
    """
    if acceptable and "int8" not in acceptable:
        return "fp32"
    is_choice = not acceptable or "fp32" in acceptable
    return "fp32" if is_choice and seconds["fp32"] * _FP32_IS_FASTER < seconds["int8"] else "int8"


@dataclass(frozen=True, slots=True)
class EncoderReport:
    """The measurements of all precisions of an encoder, and its default precision."""

    variants: tuple[VariantReport, ...]
    default: Precision

    @classmethod
    def of_manifest(cls, manifest: Manifest) -> "EncoderReport":
        """The measurements in `manifest`, which the export wrote."""
        details = manifest.details
        variants = (VariantReport.of_manifest(manifest, each) for each in details["precisions"])
        return cls(tuple(variants), details["default_precision"])

    def shortfalls(self) -> dict[Precision, str]:
        """The precisions that are not good enough, each with the reason as a sentence."""
        found = {variant.precision: variant.shortfall for variant in self.variants}
        return {precision: sentence for precision, sentence in found.items() if sentence}

    def tables(self) -> Iterator[Table]:
        """Parity, quality and size; then latency, if it was measured."""
        yield self._parity_table()
        if any(variant.seconds for variant in self.variants):
            yield self._latency_table()

    def _parity_table(self) -> Table:
        table = _table("Parity with torch", "mean cosine", "smallest", "MB")
        quality = next((each.quality for each in self.variants if each.quality), None)
        if quality:
            table.add_column(METRIC, justify="right")
            table.add_column("change", justify="right")
            table.caption = f"{METRIC} by exact search on {quality.collection} {quality.split}"
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
            elif quality:
                row += [f"{quality.fp32:.4f}", ""]
            table.add_row(*row)
        return table

    def _latency_table(self) -> Table:
        lengths = sorted(
            {n for variant in self.variants for of in variant.seconds.values() for n in of}
        )
        title = "Latency, p50 in ms, by tokens of the text"
        table = _table(title, "threads", *map(str, lengths))
        table.caption = "with tokenising, the precisions measured in alternation"
        for variant in self.variants:
            for threads, of_length in variant.seconds.items():
                figures = [f"{of_length[n] * 1000:.3f}" for n in lengths]
                table.add_row(variant.precision, str(threads), *figures)
        return table


def _table(title: str, *columns: str) -> Table:
    """A table of one line for each precision, with these columns of figures."""
    table = Table(title=title, title_justify="left")
    table.add_column("precision")
    for name in columns:
        table.add_column(name, justify="right")
    return table
