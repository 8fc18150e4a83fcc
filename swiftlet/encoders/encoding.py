"""Many texts to embeddings on several threads, each text alone."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np

from swiftlet.encoders.encoder import Encoder
from swiftlet.processors import available_processors
from swiftlet.types import Embeddings

_BATCH_TEXTS = 32
# The number of finished batches for each thread, which bounds the memory.
_BATCHES_AHEAD = 4


def encode_batches(encoder: Encoder, texts: Iterable[str], threads: int) -> Iterator[Embeddings]:
    """Embeddings of `texts` in order, by batches (n, width), made by `threads` threads."""
    remaining = iter(texts)
    waiting: deque[Future[Embeddings]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="encode") as pool:
        try:
            while True:
                while len(waiting) < threads * _BATCHES_AHEAD and (
                    batch := list(islice(remaining, _BATCH_TEXTS))
                ):
                    waiting.append(pool.submit(encoder.encode, batch))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def encode_texts(encoder: Encoder, texts: Iterable[str], threads: int | None = None) -> Embeddings:
    """The embeddings (n, width) of `texts`, made by `threads` threads (default: all cores)."""
    batches = encode_batches(encoder, texts, threads or available_processors())
    return np.concatenate([np.empty((0, encoder.width), dtype=np.float32), *batches])
