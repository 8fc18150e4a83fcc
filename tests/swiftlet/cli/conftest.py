"""Shared parts of the commands' tests."""

import json
import random
from pathlib import Path

import pytest
import torch

from tests.checkpoints import WORDS, checkpoints
from tests.command_line import swiftlet
from tests.runs import collection, tiny_encoder

__all__ = ["checkpoints", "collection", "tiny_encoder"]

DOCUMENTS = 200
"""Of six sentences each: a thousand sentences are the least that an adaptation takes."""


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    # Encoders so small are no faster with more.
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """Sentences of words that no encoder knows, with a word of its own in each document; read only.

    Document "n" has the word that `own_word` makes of n.
    """
    chance, folder = random.Random(3), tmp_path_factory.mktemp("corpus")
    rows = [
        {
            "_id": f"{number}",
            "text": " ".join(
                f"Kalo {' '.join(chance.choices(WORDS, k=4))} {own_word(number)}." for _ in range(6)
            ),
        }
        for number in range(DOCUMENTS)
    ]
    path = folder / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="session")
def tiny_index(corpus, tiny_encoder, tmp_path_factory) -> Path:
    """The index of the corpus by the tiny encoder; read only."""
    out = tmp_path_factory.mktemp("tiny-index") / "index"
    options = ("--encoder", tiny_encoder, "--passage-tokens", 24, "--overlap-tokens", 0)
    assert swiftlet("index", corpus, "--out", out, *options).exit_code == 0
    return out


@pytest.fixture(scope="session")
def judged(tmp_path_factory) -> tuple[Path, Path]:
    """Two queries for each document, and their qrels; read only."""
    chance, folder = random.Random(5), tmp_path_factory.mktemp("judged")
    queries, qrels = folder / "queries.jsonl", folder / "qrels.tsv"
    rows, lines = [], ["query-id\tcorpus-id\tscore"]
    for number in range(2 * DOCUMENTS):
        text = f"what is {own_word(number // 2)} {chance.choice(WORDS)}"
        rows.append(json.dumps({"_id": f"q{number}", "text": text}))
        lines.append(f"q{number}\t{number // 2}\t1")
    queries.write_text("\n".join(rows))
    qrels.write_text("\n".join(lines))
    return queries, qrels


def own_word(number: int) -> str:
    """A word of two of the known ones."""
    first, second = divmod(number, len(WORDS))
    return f"{WORDS[first]}{WORDS[second]}"
