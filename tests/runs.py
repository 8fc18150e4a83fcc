"""Training runs that take a second: a small collection, and recipes for tiny towers."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn

from tests.checkpoints import SIZES, WORDS
from training.model.quiet import quiet
from training.model.towers import Tower, TowerSettings
from training.objective.negatives.sampler import Rows
from training.recipes.settings import Recipe, parse_recipe
from training.train import Outcome, train

Make = Callable[..., Recipe]

NUM_PAIRS = 44
NUM_HELD_OUT = 12


class Listener:
    """Keeps the messages of a run."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None, int]] = []
        self.notes: list[str] = []

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        self.stages.append((name, total, done))

    def advance(self, steps: int) -> None:
        pass

    def describe(self, text: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)


def write_collection(folder: Path, num_pairs: int = NUM_PAIRS, num_words: int = 6) -> Path:
    """A BEIR folder: each query has two words of its document, which no other has both of."""
    chance = random.Random(5)
    (folder / "qrels").mkdir(parents=True)
    pairs = chance.sample([(a, b) for a in WORDS for b in WORDS if a < b], num_pairs)
    documents, queries, qrels = [], [], ["query-id\tcorpus-id\tscore"]
    for number, pair in enumerate(pairs):
        words = [*pair, *chance.choices(WORDS, k=num_words - 2)]
        chance.shuffle(words)
        documents.append({"_id": f"d{number}", "title": "", "text": " ".join(words)})
        queries.append({"_id": f"q{number}", "text": " ".join(pair)})
        qrels.append(f"q{number}\td{number}\t1")
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (folder / "qrels" / "train.tsv").write_text("\n".join(qrels))
    return folder


def tables(collection: Path, query_model: Path, document_model: Path, **settings: Any) -> Any:
    """A recipe's content, with an epoch of four steps; `settings` are named `table__setting`."""
    content: dict[str, Any] = {
        "recipe": "daft",
        "data": [{"corpus": str(collection), "qrels": "train"}],
        "query_encoder": {"model": str(query_model), "pooling": "mean"},
        "document_encoder": {"model": str(document_model), "pooling": "mean"},
        "passages": {"tokens": 16, "overlap_tokens": 0, "truncate": True},
        "validation": {"queries": NUM_HELD_OUT},
        "negatives": {"per_query": 4, "refresh_fraction": 0.1},
        "optimiser": {"learning_rate": 1e-3, "batch_size": 8, "warmup_steps": 0},
        "alignment": {"max_epochs": 2, "threshold_per_dimension": -1000.0, "patience": 100},
        "fine_tuning": {"epochs": 2},
        "collapse": {"stop": False, "ndcg_share": 0.0},  # tiny models retrieve by chance
    }
    for name, value in settings.items():
        table, _, setting = name.partition("__")
        if setting:
            content.setdefault(table, {})[setting] = value
        else:
            content[table] = value
    return content


def recipe(collection: Path, query_model: Path, document_model: Path, **settings: Any) -> Recipe:
    """The same, validated."""
    return parse_recipe(tables(collection, query_model, document_model, **settings), "the recipe")


def write_recipe(path: Path, content: Mapping[str, Any]) -> Path:
    """Write tables as TOML, in which strings, numbers and lists look as in JSON."""
    lines = []
    for name, value in content.items():
        if isinstance(value, Mapping):
            lines += [f"[{name}]", *_settings(value)]
        elif name == "data":
            lines += [line for table in value for line in (f"[[{name}]]", *_settings(table))]
        else:
            lines.insert(0, f"{name} = {json.dumps(value)}")
    path.write_text("\n".join(lines), "utf-8")
    return path


def _settings(table: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in table.items()]


def run(recipe: Recipe, out: Path, **options: bool) -> Outcome:
    """Train without showing anything."""
    return train(recipe, out, progress=Listener(), **options)


def records(out: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The log of a run, without times."""
    lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    for record in found:
        record.pop("seconds", None)
    return [record for record in found if kind in {None, record["kind"]}]


class ListedPassages:
    """Passages from memory."""

    def __init__(self, texts: Sequence[str], key: str = "listed") -> None:
        self.key = key
        self.num_passages = len(texts)
        self._texts = list(texts)

    def texts(self, rows: Rows) -> list[str]:
        return [self._texts[row] for row in rows]


def plain_accelerator() -> Accelerator:
    """One process, in float32, whatever an earlier run in this process computed in."""
    AcceleratorState._reset_state()
    return Accelerator(cpu=True, mixed_precision="no")


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    """The gradient of each parameter that has one."""
    named = module.named_parameters()
    return {name: value.grad.clone() for name, value in named if value.grad is not None}


def tower(model: Path, **settings: Any) -> Tower:
    """A tower with mean pooling that drops nothing out."""
    return Tower.load(TowerSettings(model, **{"pooling": "mean", "dropout": 0.0} | settings))


@pytest.fixture(scope="session")
def collection(tmp_path_factory) -> Path:
    """The small collection; read only."""
    return write_collection(tmp_path_factory.mktemp("collection") / "words")


@pytest.fixture(scope="session")
def tiny_encoder(checkpoints, tmp_path_factory) -> Path:
    """A tiny BERT in ONNX; read only."""
    from export.encoder_directory import export_encoder

    out = tmp_path_factory.mktemp("tiny") / "encoder"
    export_encoder(checkpoints["bert"], out, pooling="mean", precisions=["fp32"])
    return out


@pytest.fixture(scope="session")
def narrow(checkpoints, tmp_path_factory) -> Path:
    """A checkpoint less wide than the others; read only."""
    folder = tmp_path_factory.mktemp("narrow") / "bert"
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoints["bert"])
    sizes = SIZES | {"hidden_size": 24}
    config = transformers.BertConfig(len(tokenizer), max_position_embeddings=40, **sizes)
    torch.manual_seed(9)
    with quiet():
        transformers.BertModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder
