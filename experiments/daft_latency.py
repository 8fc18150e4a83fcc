"""What the query encoders of the layer sweep cost in ONNX int8, measured in turns."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from daft_runs import Variant, Workplace

from export.encoder_directory import export_encoder
from retrieval.encoder import OnnxEncoder

QUERY = "what is the capital city of south africa"
TOKENS = 10
ROUNDS = 30
QUERIES_A_ROUND = 50


def measure_latencies(workplace: Workplace, variants: Sequence[Variant]) -> dict[str, float]:
    """Median milliseconds to encode one query of ten tokens on one thread, tokenising included."""
    kept = workplace.runs / "latency.json"
    if kept.is_file():
        found: dict[str, float] = json.loads(kept.read_text("utf-8"))
        if found.keys() == {variant.name for variant in variants}:
            return found
    encoders = {}
    for variant in variants:
        out = workplace.directory(variant) / "query-encoder"
        if not out.is_dir():
            export_encoder(_query_encoder(workplace, variant), out, precisions=["int8"])
        encoders[variant.name] = OnnxEncoder.load(out, precision="int8")
    for name, encoder in encoders.items():
        if (count := len(encoder.tokenise(QUERY))) != TOKENS:
            raise SystemExit(f"{name} makes {count} tokens of the query, not {TOKENS}")
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(ROUNDS):
        for name, encoder in encoders.items():
            for _ in range(QUERIES_A_ROUND):
                began = time.perf_counter()
                encoder.encode([QUERY])
                seconds[name].append(time.perf_counter() - began)
    latencies = {name: median(values) * 1000 for name, values in seconds.items()}
    kept.write_text(json.dumps(latencies))
    return latencies


def _query_encoder(workplace: Workplace, variant: Variant) -> Path:
    return workplace.directory(variant) / "run" / "query_encoder"
