"""Texts of every length, made of the words that a tokenizer knows."""

import numpy as np
from tokenizers import Tokenizer

_LONGEST_DENSE = 32
_SPARSE_LENGTHS = 48


def lengths_to_sample(max_tokens: int, num_special_tokens: int) -> list[int]:
    """Lengths from one token to `max_tokens`, each with special tokens included.

    Every length while texts are as short as queries, then ever wider apart.
    """
    shortest = num_special_tokens + 1
    dense = range(shortest, min(max_tokens, _LONGEST_DENSE) + 1)
    sparse = np.geomspace(shortest, max_tokens, _SPARSE_LENGTHS).round().astype(int).tolist()
    near_the_end = range(max(shortest, max_tokens - 1), max_tokens + 1)
    return sorted({*dense, *sparse, *near_the_end})


def sample_texts(tokenizer_json: str, lengths: list[int], *, seed: int = 0) -> list[str]:
    """One text of about as many tokens as each of `lengths`; the same texts on every machine.

    They are random words of the vocabulary: no language, but what a tokenizer has seen most.
    Another `seed` gives other texts.
    """
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    special = tokenizer.num_special_tokens_to_add(is_pair=False)
    words = _words(tokenizer)
    generator = np.random.default_rng(seed)
    texts = []
    for length in lengths:
        chosen = [words[n] for n in generator.integers(0, len(words), length - special)]
        texts.append(" ".join(chosen))
    return texts


def _words(tokenizer: Tokenizer) -> list[str]:
    """What single tokens spell, if it is letters or digits and gives one token again."""
    numbers = range(tokenizer.get_vocab_size())
    spelled = {tokenizer.decode([number]).strip() for number in numbers}
    candidates = sorted(word for word in spelled if word.isalnum())
    # In the middle of a text, where some tokenizers write a word otherwise than at its start.
    encodings = tokenizer.encode_batch(
        [f"{word} {word}" for word in candidates], add_special_tokens=False
    )
    whole = [w for w, e in zip(candidates, encodings, strict=True) if len(e.ids) == 2]
    return whole or candidates or ["a"]
