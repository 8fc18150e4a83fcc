"""Random texts of given lengths, made of words in a tokenizer's vocabulary."""

from functools import lru_cache

import numpy as np
from tokenizers import Tokenizer

_LONGEST_DENSE = 32
_SPARSE_LENGTHS = 48


def lengths_to_sample(max_tokens: int, num_special_tokens: int) -> list[int]:
    """Lengths from one token to `max_tokens`, plus special tokens.

    Short lengths, as of queries, are all included. Longer ones are spaced geometrically.
    """
    shortest = num_special_tokens + 1
    dense = range(shortest, min(max_tokens, _LONGEST_DENSE) + 1)
    sparse = np.geomspace(shortest, max_tokens, _SPARSE_LENGTHS).round().astype(int).tolist()
    near_the_end = range(max(shortest, max_tokens - 1), max_tokens + 1)
    return sorted({*dense, *sparse, *near_the_end})


def sample_texts(tokenizer_json: str, lengths: list[int], *, seed: int = 0) -> list[str]:
    """A text of about that many tokens for each of `lengths`; the same texts on every machine.

    The texts are random words of the vocabulary, not sentences. They depend on `seed`.
    """
    special, words = _special_and_words(tokenizer_json)
    generator = np.random.default_rng(seed)
    texts = []
    for length in lengths:
        chosen = [words[n] for n in generator.integers(0, len(words), length - special)]
        texts.append(" ".join(chosen))
    return texts


@lru_cache(maxsize=2)
def _special_and_words(tokenizer_json: str) -> tuple[int, list[str]]:
    """How many special tokens a text has, and the words of letters or digits of one token."""
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    numbers = range(tokenizer.get_vocab_size())
    spelled = {tokenizer.decode([number]).strip() for number in numbers}
    candidates = sorted(word for word in spelled if word.isalnum())
    # Twice, since some tokenizers split a word at the start of a text in another way.
    encodings = tokenizer.encode_batch(
        [f"{word} {word}" for word in candidates], add_special_tokens=False
    )
    whole = [w for w, e in zip(candidates, encodings, strict=True) if len(e.ids) == 2]
    return tokenizer.num_special_tokens_to_add(is_pair=False), whole or candidates or ["a"]
