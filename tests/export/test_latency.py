"""Latencies are medians over rounds, for texts of exact lengths."""

import itertools
import time

import pytest
import tokenizers

from export.latency import LENGTHS, measure_latencies, texts_of_length
from export.source import load_source
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.tokenizer import Tokenizer


@pytest.mark.parametrize("kind", ["bert", "mpnet", "roberta"])
def test_texts_have_exactly_the_given_number_of_tokens(kind, checkpoints):
    tokenizer_json = load_source(checkpoints[kind], pooling="mean").tokenizer_json
    texts = texts_of_length(tokenizer_json)
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    # The models read 24 tokens.
    assert list(texts) == [4, 8, 16]
    for length, choice in texts.items():
        assert 1 <= len(choice) <= 5
        assert len(set(choice)) == len(choice)
        assert {len(tokenizer.encode(text).ids) for text in choice} == {length}


def test_texts_of_the_shipped_encoder_reach_every_length(shipped_encoder):
    texts = texts_of_length(tokenizers_json(shipped_encoder))
    assert {length: len(choice) for length, choice in texts.items()} == dict.fromkeys(LENGTHS, 5)


def test_lengths_that_special_tokens_fill_or_truncation_cuts_are_left_out(checkpoints):
    source = load_source(checkpoints["bert"], pooling="mean", max_tokens=9)
    assert list(texts_of_length(source.tokenizer_json, [1, 2, 3, 9, 10, 64])) == [3, 9]


class Ticking:
    """An encoder under which a clock goes on by so many seconds a run, and which keeps a diary."""

    def __init__(self, name: str, clock: "Clock", seconds: list[float], diary: list[str]) -> None:
        self._name, self._clock, self._diary = name, clock, diary
        self._seconds = itertools.cycle(seconds)

    def encode(self, texts):
        self._diary.append(self._name)
        self._clock.now += next(self._seconds)


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_encoders_take_turns_and_the_first_run_of_a_turn_does_not_count():
    clock, diary = Clock(), []
    encoders = {
        "a": Ticking("a", clock, [100.0, 3.0, 1.0, 2.0, 2.0, 50.0], diary),
        "b": Ticking("b", clock, [7.0], diary),
    }
    taken = measure_latencies(encoders, {4: ["x", "y"], 8: ["z"]}, rounds=4, clock=clock)
    assert taken == {"a": {4: 2.0, 8: 2.0}, "b": {4: 7.0, 8: 7.0}}
    turns = [tuple(diary[first : first + 6]) for first in range(0, len(diary), 6)]
    rounds = list(zip(turns[::2], turns[1::2], strict=True))
    assert [set(each) for each in rounds] == [{("a",) * 6, ("b",) * 6}] * 8
    assert len(set(rounds)) == 2


def test_slow_encoders_are_measured_in_three_turns():
    diary: list[str] = []
    encoders = {"a": Ticking("a", Clock(), [0.0], diary)}
    measure_latencies(encoders, {4: ["x"]}, rounds=50, seconds=0)
    assert len(diary) == 3 * 6


def test_more_tokens_and_more_layers_take_longer(shipped_encoder, exported_bert):
    texts = texts_of_length(tokenizers_json(shipped_encoder), [4, 64])
    encoders = {"six layers": shipped_encoder, "tiny": OnnxEncoder.load(exported_bert)}
    taken = measure_latencies(encoders, texts, rounds=3, clock=time.thread_time)
    assert taken["six layers"][64] > 2 * taken["six layers"][4]
    assert taken["six layers"][64] > 2 * taken["tiny"][64]


def tokenizers_json(encoder: OnnxEncoder) -> str:
    tokenizer: Tokenizer = encoder.tokenizer
    return tokenizer._truncating.to_str()
