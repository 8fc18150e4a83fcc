"""Measures the latency of encoders on short texts, in alternation."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import median
from typing import TypeVar

import numpy as np
import tokenizers

from export.sample_texts import sample_texts
from swiftlet.encoders.encoder import Encoder
from swiftlet.encoders.tokenizer import Tokenizer

LENGTHS = (4, 8, 16, 32, 64)
"""Tokens of a text, special tokens included: most queries have between 4 and 16."""

Name = TypeVar("Name", bound=Hashable)

_ROUNDS = 20
_FEWEST_ROUNDS = 3
_RUNS_A_TURN = 5
_TEXTS = 5
_ATTEMPTS = 10
# At the start of a text, a word may have more tokens than within the text.
_PIECES_MORE = 2


def measure_latencies(
    encoders: Mapping[Name, Encoder],
    texts: Mapping[int, Sequence[str]],
    *,
    rounds: int = _ROUNDS,
    seconds: float = 5.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, dict[int, float]]:
    """Median seconds to encode one of `texts`, tokenising included: encoder -> length -> seconds.

    The encoders alternate after five runs each, so that other load on the machine affects all of
    them equally. A warm-up run precedes each five, since the processor's caches have the weights of
    another encoder. Their order is drawn anew in each round: after an encoder with large weights,
    another one takes up to a quarter longer.

    :param texts: Some texts of each length, as from `texts_of_length`.
    :param rounds: The number of rounds at each length.
    :param seconds: After this time at one length, three rounds are enough.
    :param clock: Gives the time in seconds.
    """
    taken: dict[Name, dict[int, float]] = {name: {} for name in encoders}
    for length, choice in texts.items():
        timings: dict[Name, list[float]] = {name: [] for name in encoders}
        end = time.perf_counter() + seconds
        order, generator = list(encoders), np.random.default_rng(0)
        for turn in range(rounds):
            if turn >= _FEWEST_ROUNDS and time.perf_counter() > end:
                break
            text = [choice[turn % len(choice)]]
            generator.shuffle(order)
            for name in order:
                encoder = encoders[name]
                encoder.encode(text)
                for _ in range(_RUNS_A_TURN):
                    began = clock()
                    encoder.encode(text)
                    timings[name].append(clock() - began)
        for name, values in timings.items():
            taken[name][length] = median(values)
    return taken


def texts_of_length(tokenizer_json: str, lengths: Sequence[int] = LENGTHS) -> dict[int, list[str]]:
    """Up to five texts of each of `lengths`, in tokens.

    Lengths above `max_tokens`, or too short for any word, are left out.
    """
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json))
    shortest = tokenizer.num_special_tokens + 1
    sampled_lengths = [
        max(length - pieces, shortest)
        for length in lengths
        if shortest <= length <= tokenizer.max_tokens
        for pieces in range(_PIECES_MORE + 1)
        for _ in range(_ATTEMPTS)
    ]
    candidates: dict[int, list[str]] = {}
    for text in dict.fromkeys(sample_texts(tokenizer_json, sampled_lengths)):
        candidates.setdefault(len(tokenizer.encode(text)), []).append(text)
    return {length: candidates[length][:_TEXTS] for length in lengths if length in candidates}
