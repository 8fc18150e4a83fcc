"""An encoder of numbers, which shows what was encoded and in which order."""

import threading
from collections.abc import Sequence

import numpy as np

from swiftlet.types import Embeddings


class Numbers:
    """An encoder of numbers: the embedding of "7" is (7, 7, 7). `read` has the texts so far."""

    dim = width = 3
    max_tokens = 1
    embedding_space = "numbers"

    def __init__(self) -> None:
        self.read: list[str] = []
        self._lock = threading.Lock()

    def tokenise(self, text: str) -> list[int]:
        with self._lock:
            self.read.append(text)
        return [int(text)]

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        return np.full(3, token_ids[0], dtype=np.float32)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        return np.stack([self.embed(self.tokenise(text)) for text in texts])


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]
