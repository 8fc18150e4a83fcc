"""Training runs that take a second: a small collection, and recipes for tiny towers."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import WORDS
from training.recipe import Recipe, parse_recipe
from training.train import Outcome, train

NUM_PAIRS = 44
QUERIES_HELD_OUT = 12


class Listener:
    """Remembers what a run said."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None, int]] = []
        self.notes: list[str] = []

    def stage(self, name: str, total: int | None, done: int = 0) -> None:
        self.stages.append((name, total, done))

    def advance(self, steps: int) -> None:
        pass

    def describe(self, text: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)


def write_collection(folder: Path, num_pairs: int = NUM_PAIRS) -> Path:
    """A BEIR folder: each query has two words of its document, which no other has both of."""
    chance = random.Random(5)
    (folder / "qrels").mkdir(parents=True)
    pairs = chance.sample([(a, b) for a in WORDS for b in WORDS if a < b], num_pairs)
    documents, queries, qrels = [], [], ["query-id\tcorpus-id\tscore"]
    for number, pair in enumerate(pairs):
        words = [*pair, *chance.choices(WORDS, k=4)]
        chance.shuffle(words)
        documents.append({"_id": f"d{number}", "title": "", "text": " ".join(words)})
        queries.append({"_id": f"q{number}", "text": " ".join(pair)})
        qrels.append(f"q{number}\td{number}\t1")
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (folder / "qrels" / "train.tsv").write_text("\n".join(qrels))
    return folder


def content(
    collection: Path, query_model: Path, document_model: Path, **settings: Any
) -> dict[str, Any]:
    """A recipe's tables: an epoch is four steps; `settings` are named as `table__setting`."""
    tables: dict[str, Any] = {
        "recipe": "daft",
        "data": [{"corpus": str(collection), "qrels": "train"}],
        "query_encoder": {"model": str(query_model), "pooling": "mean"},
        "document_encoder": {"model": str(document_model), "pooling": "mean"},
        "passages": {"tokens": 16, "truncate": True},
        "validation": {"queries": QUERIES_HELD_OUT},
        "negatives": {"per_query": 4, "refresh_fraction": 0.1},
        "optimiser": {"learning_rate": 1e-3, "batch_size": 8, "warmup_steps": 0},
        "alignment": {"max_epochs": 2, "threshold_per_dimension": -1000.0, "patience": 100},
        "fine_tuning": {"epochs": 2},
        "collapse": {"stop": False},
    }
    for name, value in settings.items():
        table, _, setting = name.partition("__")
        if setting:
            tables.setdefault(table, {})[setting] = value
        else:
            tables[table] = value
    return tables


def write_recipe(path: Path, tables: Mapping[str, Any]) -> Path:
    """`tables` as TOML, of which strings, numbers and lists are written as in JSON."""
    single = {name: value for name, value in tables.items() if not isinstance(value, dict | list)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in single.items()]
    for name, value in tables.items():
        for table in value if isinstance(value, list) else [value] * (name not in single):
            lines.append(f"[[{name}]]" if isinstance(value, list) else f"[{name}]")
            lines += [f"{key} = {json.dumps(setting)}" for key, setting in table.items()]
    path.write_text("\n".join(lines), "utf-8")
    return path


def small_recipe(collection: Path, query_model: Path, document_model: Path, **settings: Any) -> Recipe:
    """The same as `content`, validated."""
    return parse_recipe(content(collection, query_model, document_model, **settings), "the recipe")


def run(recipe: Recipe, out: Path, **options: bool) -> Outcome:
    """Train without showing anything."""
    return train(recipe, out, progress=Listener(), **options)


def records(out: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """What a run logged, but for the time it took."""
    lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    for record in found:
        record.pop("seconds", None)
    return [record for record in found if kind in (None, record["kind"])]


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small collection; read only."""
    return write_collection(tmp_path_factory.mktemp("collection") / "words")
