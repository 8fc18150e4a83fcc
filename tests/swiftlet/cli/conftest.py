"""Shared parts of the commands' tests."""

import json
import random
from pathlib import Path

import pytest

from tests.checkpoints import WORDS, checkpoints
from tests.runs import collection

__all__ = ["checkpoints", "collection"]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
        for number in range(240)
    ]
    path = folder / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def own_word(number: int) -> str:
    """A word of two of the known ones."""
    first, second = divmod(number, len(WORDS))
    return f"{WORDS[first]}{WORDS[second]}"
