"""What the encoders of DAFT's runs find, in each state of a run, and what other systems find."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.pairs import mixed
from measuring.results import Figures, means
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.types import Run as SearchRun
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.validator import METRICS, Validator
from training.data.sources import DataSource
from training.data.validation_set import ValidationSet, validation_from
from training.inputs import make_dual_encoder
from training.loop.checkpoints import CHECKPOINT, STAGES, read_checkpoint
from training.loop.devices import make_accelerator
from training.loop.embedding_cache import EmbeddingCache
from training.model.dual_encoder import DualEncoder
from training.model.fingerprint import outputs_key
from training.model.loading import truncating_tokenizer
from training.model.towers import Tower, TowerSettings
from training.model.trained import TOWERS
from training.recipes.settings import Recipe

TESTS = [("squad-dev-v1.1", "test"), ("boolq", "test_disjoint"), ("scifact", "test")]
TITLES = [f"{name} {split}" for name, split in TESTS]
EMBEDDED = 400


class Bench:
    """A pair of encoders by a recipe, before training, and the collections that test it."""

    def __init__(self, options: Namespace, recipe: Recipe) -> None:
        torch.manual_seed(recipe.seed)
        self.dual_encoder = make_dual_encoder(recipe)
        tower, passages = self.dual_encoder.document_tower, recipe.passages
        self.store = options.work / "tests"
        whole = tower.encoder.tokenizer
        splitter = PassageSplitter(
            Tokenizer(truncating_tokenizer(whole, tower.max_tokens)), passages.tokens,
            passages.overlap_tokens, truncate=passages.truncate,
        )  # fmt: skip
        self.collections = {
            f"{name} {split}": validation_from(
                [DataSource(corpus=str(options.data / name), qrels=split)], self.store, splitter
            )
            for name, split in TESTS
        }
        accelerator = make_accelerator(recipe.optimiser.precision)
        self.dual_encoder.to(accelerator.device)
        outputs = options.work / "frozen"
        key = outputs_key(tower, recipe.optimiser.precision)
        self.frozen = EmbeddingCache(outputs, key, tower.width)
        self.encoder_of = partial(BatchEncoder, accelerator=accelerator, micro_batch_size=32)


def tested(options: Namespace, recipe: Recipe, folder: Path, states: Sequence[str]) -> Figures:
    """The quality of a run's encoders in some states, and how mixed the embeddings are in all.

    The embeddings are kept in the folder of the run.
    """
    bench, found, queries_of, mixtures = Bench(options, recipe), Figures(), Figures(), Figures()
    embeddings: dict[str, Any] = {}
    for state, encoder in _states(folder / "run", bench):
        queries, documents = _embeddings(encoder, next(iter(bench.collections.values())))
        embeddings |= {f"{state} queries": queries, f"{state} documents": documents}
        mixtures[state] = mixed(queries, documents, 1)
        if state in states:
            found[state], queries_of[state] = {}, {}
            for title, collection in bench.collections.items():
                run = Validator(collection, EMBEDDED).run(encoder)
                found[state][title], queries_of[state][title] = quality(run, collection)
    np.savez(folder / "embeddings.npz", **embeddings)
    return {"tests": found, "by_query": queries_of, "mixtures": mixtures}


def quality(run: SearchRun, collection: ValidationSet) -> tuple[dict[str, float], str]:
    """The metrics, and the nDCG@10 of each query in thousandths, as one text."""
    values = evaluate_per_query(run, collection.qrels, METRICS)
    return means(values), " ".join(f"{1000 * each:.0f}" for each in values[METRICS[0]].values())


def _states(run: Path, bench: Bench) -> Iterator[tuple[str, BatchEncoder]]:
    """The encoders before training, "aligned" if there was such a stage, and "ended"."""
    pair = bench.dual_encoder
    encoder = bench.encoder_of(pair, embedding_cache=bench.frozen)
    yield "start", encoder
    # The untrained document encoder alone.
    alone = DualEncoder(pair.document_tower, pair.document_tower, dim=pair.dim)
    alone.document_projection = alone.query_projection = pair.document_projection
    both = bench.encoder_of(alone, embedding_cache=bench.frozen)
    yield "start, document encoder for both", both
    if (run / STAGES / "alignment").is_dir():
        pair.load_state_dict(read_checkpoint(run / STAGES / "alignment")["model"])
        yield "aligned", encoder
    if (run / "query_encoder").is_dir():
        towers = [Tower.load(TowerSettings(model=run / name)) for name in TOWERS]
        pair = DualEncoder(*towers, projection="none")
    else:  # collapsed
        pair.load_state_dict(read_checkpoint(run / CHECKPOINT)["model"])
    yield "ended", bench.encoder_of(pair.to(encoder.accelerator.device))


def _embeddings(encoder: BatchEncoder, collection: ValidationSet) -> list[NDArray[np.float32]]:
    relevant = list(dict.fromkeys(document for q in collection.qrels.values() for document in q))
    rows = collection.passages.document_ids.numbers(relevant[:EMBEDDED])
    chosen = collection.queries[:: max(1, len(collection.queries) // EMBEDDED)][:EMBEDDED]
    found = encoder.queries(chosen), encoder.passages(collection.passages, rows)
    return [each.float().cpu().numpy() for each in found]
