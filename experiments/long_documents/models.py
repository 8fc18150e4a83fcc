"""The models of long documents: pairs of encoders, and a cross-encoder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import swiftlet
from experiments.long_documents import task
from experiments.pairs import Pair
from export.encoder_directory import export_encoder
from export.quality import Collection
from export.reranker_directory import export_reranker
from measuring.experiment import Stages, laid_over, settings_beside
from measuring.runs import PRECISION
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.index.lexical.analysis import WORD_PIECES
from training.model.trained import MODEL
from training.recipes.settings import parse_tables
from training.reranking.settings import CROSS_ENCODER, RerankerRecipe
from training.reranking.train import train_reranker

TABLES = settings_beside(__file__)
_PRECISE = {"optimiser": {"precision": PRECISION}}
SETTINGS = laid_over(TABLES["settings"], _PRECISE)
CROSS_START: str = TABLES["cross"]["start"]
CROSS_EPOCHS: list[int] = TABLES["cross"]["epochs"]
CROSS_SETTINGS = laid_over(TABLES["cross"]["settings"], _PRECISE)
SYSTEMS: dict[str, dict[str, Any]] = TABLES["systems"]
SHAPES = SYSTEMS | TABLES["other_sizes"]
CROSS = "CROSS-ATTENTION"
MOST_TOKENS = 512


def trained_pair(folder: Path, learnt: Collection, system: str, length: int, seed: int) -> Pair:
    """Train the pair of encoders of a system, without distractors."""
    documents = learnt.documents[: TABLES["counts"]["passages"]]
    task.write_collection(folder, replace(learnt, documents=documents))
    tower = {"model": f"{DEFAULT_QUERY_ENCODER}", "max_tokens": length + 2, "pooling": "cls"}
    several = {"pooling": "first_tokens", "first_tokens": SHAPES[system].get("vectors")}
    recipe = {
        "recipe": "contrastive",
        "seed": seed,
        "data": [{"corpus": f"{folder}", "qrels": "train"}],
        "query_encoder": tower,
        "document_encoder": tower | (several if several["first_tokens"] else {}),
        "dual_encoder": {"dim": SHAPES[system]["dim"], "layer_norm": True},
        "passages": {"tokens": length, "truncate": True},
        **SETTINGS,
    }
    return Pair.trained(system, recipe)


def trained_cross_encoder(folder: Path, learnt: Sequence[Collection], seed: int) -> OnnxReranker:
    """Train a cross-encoder on one collection after the other, by what a search by words finds."""
    encoder, exported = folder / "encoder", folder / "reranker"
    # The one that ships reads 256 tokens.
    export_encoder(DEFAULT_QUERY_ENCODER, encoder, max_tokens=MOST_TOKENS, precisions=["int8"])
    model = CROSS_START
    for number, (collection, epochs) in enumerate(zip(learnt, CROSS_EPOCHS, strict=False)):
        corpus, index, run = (folder / f"{name}-{number}" for name in ("corpus", "index", "run"))
        task.write_collection(corpus, collection)
        swiftlet.build(
            corpus, index, encoder=encoder, passage_tokens=MOST_TOKENS, overlap_tokens=0,
            language=WORD_PIECES,
        )  # fmt: skip
        tables = {
            "recipe": CROSS_ENCODER,
            "seed": seed,
            "index": f"{index}",
            "data": [{"queries": f"{corpus}", "qrels": f"{corpus / 'qrels' / 'train.tsv'}"}],
            "cross_encoder": {"model": model, "max_tokens": MOST_TOKENS, "dropout": 0.0},
            "epochs": epochs,
            **CROSS_SETTINGS,
        }
        train_reranker(parse_tables(RerankerRecipe, tables, CROSS), run, progress=Stages())
        model = f"{run / MODEL}"
    export_reranker(Path(model), exported, precisions=["int8"])
    return OnnxReranker.load(exported)
