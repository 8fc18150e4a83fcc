"""Writes and measures the precisions of an encoder, and chooses the default."""

import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from export.default_precision import LENGTHS, choose_precision, shortfall
from export.errors import ExportError
from export.graphs.activations import Inputs
from export.graphs.quantisation import prepare, quantise_dynamically
from export.graphs.static_quantisation import quantise_statically
from export.graphs.tracing import export_graph
from export.latency import measure_latencies, texts_of_length
from export.parity import SMALLEST_FP32_COSINE, Parity, Reference, measure_parity
from export.quality import Collection, QualityChange, exact_quality
from export.report import parity_details
from export.sample_texts import lengths_to_sample, sample_texts
from export.source import Source
from swiftlet.encoders.encoder import (
    CANONICAL_FILE,
    MODEL_FILES,
    TOKENIZER_FILE,
    OnnxEncoder,
    Precision,
)
from swiftlet.manifest import Manifest, describe_files, write_manifest

# Calibration and parity use different texts, so that parity holds for new texts.
_CALIBRATION_SEED = 1


class Variants:
    """The working directory of an export, with the measurements of the models in it."""

    def __init__(
        self, directory: Path, source: Source, reference: Reference, embedding_space: str
    ) -> None:
        self._directory = directory
        self._source = source
        self._reference = reference
        self._space = embedding_space
        self._parity: dict[Precision, Parity] = {}
        self._quality: dict[Precision, QualityChange] = {}

    def write_fp32(self) -> list[str]:
        """Write the fp32 graph, measure it, and return the names of its inputs.

        :raises ExportError: When no graph computes the same as torch.
        """

        def is_right(_path: Path) -> bool:
            return self._measure("fp32").min_cosine >= SMALLEST_FP32_COSINE

        try:
            return export_graph(self._source.model, self._path("fp32"), is_right=is_right)
        except ExportError as error:
            if "fp32" not in self._parity:
                raise
            raise ExportError(
                f"{error}: the smallest cosine is {self._parity['fp32'].min_cosine:.6f}, at least "
                f"{SMALLEST_FP32_COSINE} is expected"
            ) from error

    def quantise(self, precisions: Sequence[Precision], texts: Sequence[str]) -> None:
        """Write and measure the int8 models among `precisions`.

        :param texts: Calibration texts, in addition to texts of random words.
        """
        fp32 = self.open("fp32")
        prepared = prepare(self._path("fp32"), _inputs(fp32, [*self._reference.texts, *texts]))
        if "int8" in precisions:
            quantise_dynamically(prepared, self._path("int8"))
            self._measure("int8")
        if "int8_static" in precisions:
            lengths = lengths_to_sample(fp32.max_tokens, fp32.tokenizer.num_special_tokens)
            words = sample_texts(self._source.tokenizer_json, lengths, seed=_CALIBRATION_SEED)
            calibration = _inputs(fp32, [*words, *texts])
            quantise_statically(prepared, self._path("int8_static"), calibration)
            self._measure("int8_static")

    def compare(self, collection: Collection) -> None:
        """Measure the quality of each int8 model on `collection`."""
        fp32 = exact_quality(self.open("fp32"), collection)
        for precision in self._parity:
            if precision != "fp32":
                quality = exact_quality(self.open(precision), collection)
                self._quality[precision] = QualityChange(
                    collection.name, collection.split, fp32, quality
                )

    def default_precision(self, precisions: Sequence[Precision]) -> Precision:
        """The default among `precisions`, by parity, quality and latency."""
        if len(precisions) == 1:
            return precisions[0]
        tokenizer_json, longest = self._source.tokenizer_json, self._source.max_tokens
        texts = texts_of_length(tokenizer_json, [min(length, longest) for length in LENGTHS])
        encoders = {precision: self.open(precision) for precision in precisions}
        # The processor time of this thread does not depend on other load.
        taken = measure_latencies(encoders, texts, clock=time.thread_time)
        seconds = {precision: sum(of_length.values()) for precision, of_length in taken.items()}
        acceptable = [
            precision
            for precision in precisions
            if not shortfall(precision, self._parity[precision], self._quality.get(precision))
        ]
        return choose_precision(seconds, acceptable)

    def parity(self) -> dict[str, Any]:
        """The measurements for the manifest."""
        return {
            precision: parity_details(precision, parity, self._quality.get(precision))
            for precision, parity in self._parity.items()
        }

    def open(self, precision: Precision) -> OnnxEncoder:
        """Open the encoder with a temporary manifest, which is replaced later."""
        write_manifest(self._directory, self.manifest({}))
        return OnnxEncoder.load(self._directory, precision=precision, verify=False)

    def manifest(self, details: Mapping[str, Any]) -> Manifest:
        """The manifest of the files in the directory."""
        names = [*MODEL_FILES.values(), TOKENIZER_FILE, CANONICAL_FILE]
        present = [name for name in names if (self._directory / name).is_file()]
        return Manifest(
            kind="encoder",
            dim=self._source.dim,
            embedding_space=self._space,
            files=describe_files(self._directory, present),
            created_by=f"swiftlet {version('swiftlet-retrieval')}",
            details={**details, **self._of_source()},
        )

    def _of_source(self) -> dict[str, Any]:
        """What few models have."""
        found: dict[str, Any] = {}
        if self._source.vectors > 1:
            found["vectors"] = self._source.vectors
        if any(self._source.prompts.values()):
            found["prompts"] = dict(self._source.prompts)
        return found

    def _measure(self, precision: Precision) -> Parity:
        parity = measure_parity(self.open(precision), self._reference)
        self._parity[precision] = parity
        return parity

    def _path(self, precision: Precision) -> Path:
        return self._directory / MODEL_FILES[precision]


def _inputs(encoder: OnnxEncoder, texts: Sequence[str]) -> list[Inputs]:
    return [encoder.inputs(encoder.tokenise(text)) for text in texts]
