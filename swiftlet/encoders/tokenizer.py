"""Tokenises texts by a tokenizer.json, in the same way for indexing and serving."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from swiftlet.errors import CorruptArtefactError
from swiftlet.text import normalise, without_surrogates

# Long texts are tokenised block by block: an encoding takes some hundred bytes a token, so a text
# of 10 MB at once would need gigabytes. If a text is truncated, only its beginning is tokenised.
_BLOCK_CHARACTERS = 1 << 16
_CHARACTERS_PER_TOKEN = 16
# A word with more tokens, such as a gene sequence, is cut after this many.
_LONGEST_WORD_TOKENS = 32
# The ids of up to this many words are kept, which takes 8 MB: a query of words that came before is
# tokenised in 3 microseconds instead of 26 (docs/results/smaller.md#tokenising).
_MOST_WORDS = 1 << 15
MOST_WORDS_OF_CORPUS = 1 << 17
"""What a build keeps, which takes 60 MB, or 95 of signs: each text is cut, and then encoded."""

_LONGEST_KEPT_WORD, _MOST_KEPT_NUMBERS = 48, 24
_UNKNOWN = "☃" * 200


class Tokenizer:
    """A tokenizer with the truncation and special tokens of its file. Thread-safe."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        truncation = tokenizer.truncation
        if truncation is None:
            raise ValueError("the tokenizer has no truncation")
        self.max_tokens: int = truncation["max_length"]
        self._keeps_end = truncation["direction"] == "left"
        self.num_special_tokens: int = tokenizer.num_special_tokens_to_add(is_pair=False)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode(_UNKNOWN)  # an error without the token that stands for it
        whole = tokenizer.encode("a")
        inner = [n for n, special in enumerate(whole.special_tokens_mask) if not special]
        self._before: list[int] = whole.ids[: inner[0]]
        self._after: list[int] = whole.ids[inner[-1] + 1 :]
        # Its file may have a stride that is longer than a text, at which the library panics.
        tokenizer.enable_truncation(
            self.max_tokens, strategy=truncation["strategy"], direction=truncation["direction"]
        )
        self._truncating = tokenizer
        self._splits_at_spaces = _splits_at_spaces(tokenizer)
        # A token may take the space beside it, too.
        self._knows_words = self._splits_at_spaces and not any(
            token.lstrip or token.rstrip for token in _added_tokens(tokenizer)
        )
        self._clean = cleaning_for(tokenizer)
        self._has_blanks = self._clean is not normalise
        self.most_words = _MOST_WORDS
        """How many words are known, with their ids and their tokens."""
        # Tuples, which the garbage collector does not walk again and again.
        self._ids_of_words: dict[str, tuple[int, ...]] = {}
        self._words_of: dict[str, tuple[int, ...]] = {}

    @cached_property
    def _whole(self) -> tokenizers.Tokenizer:
        """A copy without truncation: of 250,000 tokens, it takes seconds."""
        whole = tokenizers.Tokenizer.from_str(self._truncating.to_str())
        whole.no_truncation()
        return whole

    @cached_property
    def last_id(self) -> int:
        """The largest token id of the vocabulary, without tokens that were added to it."""
        last: int = max(self._whole.get_vocab(with_added_tokens=False).values())
        return last

    @cached_property
    def unknown_id(self) -> int | None:
        """The token id that stands for unknown words and characters, if there is one."""
        token = json.loads(self._whole.to_str())["model"].get("unk_token")
        found: int | None = None if token is None else self._whole.token_to_id(token)
        return found

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a tokenizer.json.

        :raises CorruptArtefactError: When the file is no tokenizer, or one without truncation.
        """
        try:
            return cls(tokenizers.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises no subclass
            raise CorruptArtefactError(f"{path} is not a usable tokenizer: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Token ids of one text, special tokens included, (at most max_tokens,)."""
        if self._splits_at_spaces and not self._is_long(text):
            return self._encode_words(normalise(text).strip())
        ids: list[int] = self._kept(text)[1].ids
        return ids

    def encode_pair(self, first: str, second: str) -> tokenizers.Encoding:
        """The encoding of two texts together, (at most max_tokens,)."""
        # A pair leaves fewer tokens to a text than there are for a text alone.
        pair = (
            self._kept(text)[0] if self._is_long(text) else self._clean(text).strip()
            for text in (first, second)
        )  # fmt: skip
        # Unlike `encode`, it lets other threads run: two long texts take tens of milliseconds.
        return self._truncating.encode_batch([tuple(pair)])[0]

    def _is_long(self, text: str) -> bool:
        return len(text) > _CHARACTERS_PER_TOKEN * self.max_tokens

    def _kept(self, text: str) -> tuple[str, tokenizers.Encoding]:
        characters = _CHARACTERS_PER_TOKEN * self.max_tokens
        while True:
            part = self._part(text, characters)
            encoding = self._truncating.encode(cleaned := self._clean(part).strip())
            # With an overflow, the rest of the text cannot change the tokens that are kept. If the
            # end is kept, a word that is cut may be longer than the overflow.
            if part is text or len(encoding.overflowing) > self._keeps_end:
                return cleaned, encoding
            characters *= 4

    def _part(self, text: str, characters: int) -> str:
        """The beginning of a text, or the end if truncation keeps that; cut at white space."""
        if len(text) <= characters:
            return text
        if not self._keeps_end:
            return text[: _block_end(text, 0, len(text), characters)]
        start = len(text) - characters
        places = range(start, start + characters // 2)
        return text[next((place for place in places if text[place].isspace()), start) :]

    def _encode_words(self, text: str) -> list[int]:
        """Token ids of a text, word by word."""
        ids, known = self._before.copy(), self._ids_of_words
        for word in text.split(" "):
            found = known.get(word)
            if found is None:
                # What is cut of a word would be cut of the text.
                encoding = self._truncating.encode(word, add_special_tokens=False)
                found = tuple(encoding.ids)
                if len(word) <= _LONGEST_KEPT_WORD:
                    if len(known) >= self.most_words:
                        known.clear()
                    known[word] = found
            ids += found
        del ids[self.max_tokens - len(self._after) :]
        return ids + self._after

    def pieces(self, text: str) -> Iterator[int]:
        """The token ids of the whole text, without special tokens, block by block."""
        start = 0
        while start < len(text):
            end = _block_end(text, start, len(text), _BLOCK_CHARACTERS)
            block = self._clean(text[start:end]).strip()
            yield from self._whole.encode(block, add_special_tokens=False).ids
            start = end

    def to_json(self) -> str:
        """The tokenizer as a tokenizer.json."""
        content: str = self._truncating.to_str()
        return content

    def count(self, text: str) -> int:
        """How many tokens the whole text has, without special tokens."""
        if self._knows_words and len(text) <= _BLOCK_CHARACTERS:
            parts = self._known(self._clean(text).split(" "))
            return sum(chain.from_iterable(words[2::3] for words in parts))
        return sum(int(words[:, 2].sum()) for words in self.blocks(text, 0, len(text)))

    def words(self, text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The words of `text[start:end]`, each as (start, end, number of tokens).

        Passages are cut between words, since a piece of a word gives other tokens. A character
        without a token, such as an accent that the tokenizer drops, belongs to the word before it.
        So do tokens of white space, but not to its span. Positions are places in `text`.
        """
        for words in self.blocks(text, start, end):
            yield from map(tuple, words.tolist())

    def blocks(self, text: str, start: int, end: int) -> Iterator[NDArray[np.int64]]:
        """What `words` gives, as arrays (n, 3), one for each block of the text."""
        while start < end:
            block_start, start = start, _block_end(text, start, end, _BLOCK_CHARACTERS)
            block = self._clean(text[block_start:start])
            if self._knows_words:
                words = self._words_of_parts(block.split(" "))
            else:
                encoding = self._whole.encode(block, add_special_tokens=False)
                words = np.fromiter(self._words_in(block, encoding), (np.int64, 3))
            words[:, :2] += block_start
            yield words

    def _words_of_parts(self, parts: list[str]) -> NDArray[np.int64]:
        """The words of a block, (n, 3), of which these parts stand between spaces."""
        found = self._known(parts)
        words = np.fromiter(chain.from_iterable(found), np.int64).reshape(-1, 3)
        lengths = np.fromiter(map(len, parts), np.int64, len(parts)) + 1
        counts = np.fromiter(map(len, found), np.int64, len(parts)) // 3
        words[:, :2] += np.repeat(np.cumsum(lengths) - lengths, counts)[:, np.newaxis]
        return words

    def _known(self, parts: list[str]) -> list[tuple[int, ...]]:
        """The words of each part, one after the other, with three numbers each."""
        known = [*map(self._words_of.get, parts)]
        missing = [part for part, each in zip(parts, known, strict=True) if each is None]
        new = self._read(missing) if missing else {}
        return [
            new[part] if each is None else each for part, each in zip(parts, known, strict=True)
        ]

    def _read(self, parts: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """The words of parts without spaces, which are known from now on, as their ids are."""
        words = {part: list[int]() for part in parts}
        ids = {part: list[int]() for part in words}
        # All at once, since a call takes longer than a word; no word has a space.
        block = " ".join(words)
        encoding = self._whole.encode(block, add_special_tokens=False)
        place, last, names, name, each = 0, -1, iter(words), "", iter(encoding.ids)
        for start, end, tokens in self._words_in(block, encoding):
            while start > last:
                place, name = last + 1, next(names)
                last = place + len(name)
            words[name] += start - place, end - place, tokens
            ids[name] += islice(each, tokens)
        found = {part: tuple(numbers) for part, numbers in words.items()}
        for known, new in ((self._words_of, found), (self._ids_of_words, ids)):
            if len(known) + len(new) > self.most_words:
                known.clear()
            known |= {
                part: tuple(numbers)
                for part, numbers in new.items()
                if len(part) <= _LONGEST_KEPT_WORD and len(numbers) <= _MOST_KEPT_NUMBERS
            }
        return found

    def _words_in(
        self, block: str, encoding: tokenizers.Encoding
    ) -> Iterator[tuple[int, int, int]]:
        """The words of a block, as in `words`."""
        word_start = word_end = tokens = 0
        word: int | None = None
        for (token_start, token_end), token_word in zip(
            encoding.offsets, encoding.word_ids, strict=True
        ):
            if self._has_blanks:
                if not (read := block[token_start:token_end].lstrip()):
                    tokens += bool(tokens)
                    continue
                token_start = token_end - len(read)  # noqa: PLW2901 - some begin with a space
            same_word = token_word is not None and token_word == word
            if tokens and (not same_word or tokens >= _LONGEST_WORD_TOKENS):
                yield word_start, _word_end(block, word_end, token_start), tokens
                tokens = 0
            if not tokens:
                word_start, word = token_start, token_word
            word_end = token_end
            tokens += 1
        if tokens:
            yield word_start, _word_end(block, word_end, len(block)), tokens


def cleaning_for(tokenizer: tokenizers.Tokenizer) -> Callable[[str], str]:
    """What is done with a text before this tokenizer reads it.

    BERT's tokenizer has no tokens for white space; other tokenizers have one for a line's end.
    """
    is_of_bert = isinstance(tokenizer.normalizer, tokenizers.normalizers.BertNormalizer)
    return normalise if is_of_bert else without_surrogates


def _splits_at_spaces(tokenizer: tokenizers.Tokenizer) -> bool:
    """Whether words that spaces separate can be tokenised one by one, as by BERT's tokenizer."""
    return (
        isinstance(tokenizer.normalizer, tokenizers.normalizers.BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, tokenizers.pre_tokenizers.BertPreTokenizer)
        and isinstance(tokenizer.model, tokenizers.models.WordPiece)
        and tokenizer.truncation["direction"] == "right"
        and not any(" " in token.content for token in _added_tokens(tokenizer))
    )


def _added_tokens(tokenizer: tokenizers.Tokenizer) -> Iterable[tokenizers.AddedToken]:
    return tokenizer.get_added_tokens_decoder().values()  # type: ignore[no-any-return]


def _word_end(block: str, word_end: int, next_start: int) -> int:
    """The end of a word: its tokens end at `word_end`, the next word starts at `next_start`."""
    if word_end < next_start and block[word_end].isspace():  # most words
        return word_end
    places = range(word_end, next_start)
    return next((place for place in places if block[place].isspace()), max(word_end, next_start))


def _block_end(text: str, start: int, end: int, characters: int) -> int:
    """The end of a block of at most `characters` characters: at white space if there is any."""
    if end - start <= characters:
        return end
    for position in range(start + characters, start + characters // 2, -1):
        if text[position - 1].isspace():
            return position
    return start + characters
