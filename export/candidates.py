"""The precisions of an encoder, made and measured in memory."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx
import tokenizers

from export.errors import ExportError
from export.graphs.edits import OUTPUT_NAME
from export.graphs.fp32 import lookup_graph, simplified, traced
from export.graphs.quantisation import quantised
from export.latency import measure_latencies, texts_of_length
from export.parity import SMALLEST_FP32_COSINE, measure_parity, torch_reference
from export.quality import Collection, QualityChange, exact_quality
from export.report import VariantReport, choose_precision
from export.settings import Announce
from export.source import Source
from swiftlet.encoders.encoder import OnnxEncoder, Precision, open_session
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.manifest import Manifest

_LENGTHS = (8, 16)
"""The latencies of texts with these numbers of tokens are compared."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The graph of an encoder in one precision, open, and its measurements."""

    graph: bytes
    encoder: OnnxEncoder
    report: VariantReport

    @property
    def input_names(self) -> list[str]:
        """The names of the graph's inputs."""
        return [node.name for node in onnx.ModelProto.FromString(self.graph).graph.input]


def make_candidates(
    source: Source,
    embedding_space: str,
    precisions: Sequence[Precision],
    judged: Collection | None,
    progress: Announce,
) -> dict[Precision, Candidate]:
    """The fp32 graph and the others among `precisions`, measured against torch.

    :param judged: The quality of int8 and fp32 is compared on it.
    :raises ExportError: When no fp32 graph computes the same as torch.
    """
    progress("Encoding with torch")
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(source.tokenizer_json))
    reference = torch_reference(source, tokenizer)
    unwritten = Manifest(
        "encoder", source.dim, embedding_space, files={}, created_by="", details=source.details
    )

    def measured(precision: Precision, graph: bytes) -> Candidate:
        encoder = OnnxEncoder(open_session(graph, 1), tokenizer, unwritten, precision)
        parity = measure_parity(encoder, reference)
        return Candidate(graph, encoder, VariantReport(precision, len(graph), parity))

    progress("Exporting the graph")
    for graph in _graphs(source):
        fp32 = measured("fp32", graph)
        if fp32.report.parity.min_cosine >= SMALLEST_FP32_COSINE:
            break
    else:
        raise ExportError(
            f"the exported {type(source.network).__name__} does not compute the same as torch: the "
            f"smallest cosine is {fp32.report.parity.min_cosine:.6f}, at least "
            f"{SMALLEST_FP32_COSINE} is expected"
        )
    candidates: dict[Precision, Candidate] = {"fp32": fp32}
    if "int8" in precisions:
        progress("Quantising")
        inputs = [fp32.encoder.inputs(ids) for ids in reference.token_ids]
        int8 = measured("int8", quantised(graph, inputs))
        if judged is not None:
            progress(f"Comparing int8 with fp32 on {judged.name}")
            found = (exact_quality(each.encoder, judged) for each in (fp32, int8))
            quality = QualityChange(judged.name, judged.split, *found)
            int8 = replace(int8, report=replace(int8.report, quality=quality))
        candidates["int8"] = int8
    return candidates


def default_precision(candidates: Mapping[Precision, Candidate], source: Source) -> Precision:
    """The default among `candidates`, by parity, quality and latency."""
    first, *others = candidates
    if not others:
        return first
    texts = texts_of_length(
        source.tokenizer_json, [min(length, source.max_tokens) for length in _LENGTHS]
    )
    encoders = {precision: candidate.encoder for precision, candidate in candidates.items()}
    # The processor time of this thread does not depend on other load.
    taken = measure_latencies(encoders, texts, clock=time.thread_time)
    seconds = {precision: sum(of_length.values()) for precision, of_length in taken.items()}
    acceptable = {name for name, each in candidates.items() if not each.report.shortfall}
    return choose_precision(seconds, acceptable)


def _graphs(source: Source) -> Iterator[bytes]:
    """The fp32 graph of an encoder in several forms; pooled, projected and normalised.

    The output is "embedding", float32 (batch, width).
    """
    if source.is_lookup:
        yield lookup_graph(source.network.embedding.weight.detach().numpy())
        return
    yield from traced(
        simplified(source.model),
        source.network,
        task="feature-extraction",
        exported="sentence_embedding",
        output=OUTPUT_NAME,
    )
