"""An encoder that was not exported: a function of texts, or a server that is asked for them."""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from threading import Lock
from typing import Any, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray

from swiftlet.deadline import seconds_left
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE, ModelEncoder, Precision, Role
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import EncoderError, EncoderTimeoutError, InvalidArgumentError, shown
from swiftlet.manifest import Manifest
from swiftlet.text import without_surrogates
from swiftlet.types import Embeddings

CANONICAL = "encoder_canonical"
"""The detail of an index with the name of such an encoder, and its canonical embeddings then."""

CANONICAL_TEXTS = (
    "swiftlet",
    "Les hirondelles, à l'été 1987, nichèrent près de Besançon.",
    "Swiftlets nest in caves so dark that eyes are of no use.",
)
SAME_COSINE = 0.999
"""An encoder is the one that an index remembers if no canonical embedding has a lower cosine."""

BATCH_TEXTS = 32
_STORED = np.dtype("<f2")
_FEWEST_DIFFERING, _SHOWN_WIDTHS = 2, 3
_MOST_SECONDS = 3600.0


class TokenIds(list[int]):
    """The token ids of a text, with the text, as far as they go."""

    def __init__(self, ids: Sequence[int], text: str) -> None:
        super().__init__(ids)
        self.text = text


class FunctionEncoder:
    """Gives texts to a function, which returns their embeddings; they are checked and normalised.

    The tokenizer of the encoder that ships counts the tokens of passages, and says where a text
    ends that has more than `max_tokens`. As thread-safe as the function.
    """

    prompt = ""
    precision: Precision = "fp32"
    waiting_seconds = 0.03
    normalises = True
    """Whether its embeddings get the length 1; those of some indexes keep their own."""

    def __init__(
        self,
        name: str,
        function: Callable[[list[str], Role | None], Any],
        *,
        prompts: Mapping[Role, str] | None = None,
        max_tokens: int | None = None,
    ) -> None:
        """Take a function of texts and what they are, and ask it for the canonical embeddings.

        :param prompts: What stands before each text of a role.
        :param max_tokens: The most tokens that the function gets; None takes those of the encoder
            that ships.
        :raises EncoderError: When the function fails, or gives no embeddings.
        """
        self.tokenizer = _tokenizer(max_tokens)
        self.max_tokens = self.tokenizer.max_tokens
        self._name, self._function, self._prompts = name, function, prompts or {}
        self._role: Role | None = None
        self.dim = 0
        canonical = self.reading("passage").encode(CANONICAL_TEXTS)
        self.dim = self.width = canonical.shape[1]
        stored = b64encode(canonical.astype(_STORED).tobytes()).decode()
        self._identify({"name": name, "embeddings": stored})

    def __repr__(self) -> str:
        return f"FunctionEncoder({self._name!r}, {self.dim} dimensions)"

    def reading(self, role: Role) -> Self:
        """This encoder for texts of a role."""
        found = copy(self)
        found._role, found.prompt = role, self._prompts.get(role, "")  # noqa: SLF001 - a copy
        return found

    def cosines(self, details: Mapping[str, Any]) -> NDArray[np.float64] | None:
        """The cosines (n,) of its canonical embeddings with those that an index remembers.

        None if the index remembers none, or has another dimension.
        """
        own, other = self.manifest.details[CANONICAL], details.get(CANONICAL, {})
        return _cosines(own["embeddings"], other.get("embeddings", ""), self.dim)

    def known_as(self, details: Mapping[str, Any]) -> "FunctionEncoder":
        """This encoder with the fingerprint that an index or a build remembers, if it is the same.

        A model gives slightly other numbers on another machine, so cosines decide.
        """
        cosines = self.cosines(details)
        found = copy(self)
        if cosines is not None and cosines.min() >= SAME_COSINE:
            found._identify(details[CANONICAL])  # noqa: SLF001 - a copy
        return found

    def _identify(self, canonical: Mapping[str, str]) -> None:
        self.manifest = Manifest(
            kind="encoder",
            dim=self.dim,
            embedding_space=hashlib.sha256(canonical["embeddings"].encode()).hexdigest(),
            files={},
            created_by="",
            details={"name": canonical["name"], CANONICAL: {**canonical}},
        )
        self.embedding_space = self.manifest.embedding_space

    def tokenise(self, text: str) -> list[int]:
        """Token ids of the prompt and one text, for `embed`, which reads the text itself."""
        read = self._read(text)
        return TokenIds(self.tokenizer.encode(read), read)

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        """The normalised embedding (dim,) of a text that `tokenise` has read."""
        if not isinstance(token_ids, TokenIds):
            raise InvalidArgumentError(f"{self._name} reads texts, and no tokens of others")
        embedding: Embeddings = self._ask([token_ids.text])[0]
        return embedding

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """The normalised embeddings (n, dim) of `texts`.

        :raises InvalidArgumentError: When `texts` is a single text, or holds anything but texts.
        :raises EncoderError: When the function fails, or gives no embeddings.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgumentError(f"texts is {shown(texts)}, but a list of texts is expected")
        read = [self._read(text) for text in texts]
        parts = [
            self._ask(read[start : start + BATCH_TEXTS])
            for start in range(0, len(read), BATCH_TEXTS)
        ]
        return np.concatenate(parts or [np.empty((0, self.dim), np.float32)])

    def _read(self, text: str) -> str:
        """What the function gets of a text: the prompt before it, and at most `max_tokens`."""
        text = without_surrogates(self.prompt + text)
        if len(text) > self.max_tokens:  # a token has at least a character
            most = self.max_tokens - self.tokenizer.num_special_tokens
            for _, end, tokens in self.tokenizer.words(text, 0, len(text)):
                most -= tokens
                if most < 0:
                    break
                last = end
            else:
                last = len(text)
            text = text[:last]
        return text or " "  # some servers refuse an empty text

    def _ask(self, texts: list[str]) -> Embeddings:
        try:
            given = self._function(texts, self._role)
        except (EncoderError, MemoryError):
            raise
        except Exception as error:
            raise EncoderError(
                f"the encoder {self._name} has failed: {type(error).__name__}: {error}"
            ) from error
        try:
            with np.errstate(over="ignore"):  # refused below
                found = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError, OverflowError):
            found = np.empty(0, np.float32)
        width = self.dim or (found.shape[1] if found.ndim == 2 else 0)
        if not width or found.shape != (len(texts), width):
            what = f"of shape {found.shape}" if found.size and found.ndim else _widths(given)
            expected = f"{len(texts)} rows of {width or 'equally many'} numbers"
            raise EncoderError(
                f"the encoder {self._name} gives embeddings {what}, but {expected} are expected"
            )
        lengths = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
        if bad := np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0))).tolist():
            what = "zero" if lengths[bad[0]] == 0 else "not finite"
            raise EncoderError(
                f"the encoder {self._name} gives an embedding that is {what}, for the text "
                f"{shown(texts[bad[0]])}"
            )
        wanted: Embeddings = (found / lengths).astype(np.float32) if self.normalises else found
        return wanted


def _widths(given: object) -> str:
    """What a message calls embeddings that are no array: their widths, if these differ."""
    rows = given if isinstance(given, list | tuple) else ()
    widths = list(dict.fromkeys(len(row) for row in rows if isinstance(row, list | np.ndarray)))
    if len(widths) < _FEWEST_DIFFERING:
        return f"that are {shown(given)}"
    more = ", …" if len(widths) > _SHOWN_WIDTHS else ""
    return f"that have {', '.join(map(str, widths[:_SHOWN_WIDTHS]))}{more} numbers"


class InTurn:
    """A function of texts that one thread calls at a time: most models are not thread-safe."""

    def __init__(self, name: str, function: Callable[[list[str]], Any]) -> None:
        self._name, self._function, self._lock = name, function, Lock()

    def __call__(self, texts: list[str], _: Role | None) -> Any:
        """What the function gives, when it is this thread's turn.

        :raises EncoderTimeoutError: When the deadline of a search passes before.
        """
        if not self._lock.acquire(timeout=max(0.0, min(seconds_left(), _MOST_SECONDS))):
            raise EncoderTimeoutError(f"the encoder {self._name} is busy with other texts")
        try:
            return self._function(texts)
        finally:
            self._lock.release()


def known_as(encoder: ModelEncoder, details: Mapping[str, Any]) -> ModelEncoder:
    """The encoder, which an index or a build may remember; an exported one is as its files are."""
    return encoder.known_as(details) if isinstance(encoder, FunctionEncoder) else encoder


def are_same(details: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether two artefacts were made by one encoder, as far as their details tell."""
    if details["encoder_fingerprint"] == others["encoder_fingerprint"]:
        return True
    one, other = (each.get(CANONICAL, {}).get("embeddings", "") for each in (details, others))
    cosines = _cosines(one, other, len(b64decode(one)) // _STORED.itemsize // len(CANONICAL_TEXTS))
    return cosines is not None and bool(cosines.min() >= SAME_COSINE)


def remembered(encoder: ModelEncoder) -> dict[str, Any]:
    """What an index remembers of an encoder to know it again, besides its fingerprint."""
    details = encoder.manifest.details
    return {CANONICAL: details[CANONICAL]} if CANONICAL in details else {}


def _cosines(one: str, other: str, dim: int) -> NDArray[np.float64] | None:
    """The cosines (n,) of canonical embeddings as manifests have them."""
    try:
        first, second = (
            np.frombuffer(b64decode(each, validate=True), _STORED).astype(np.float64)
            for each in (one, other)
        )
        first, second = first.reshape(-1, dim), second.reshape(-1, dim)
    except ValueError:  # another dimension, or no base64
        return None
    if first.shape != second.shape:
        return None
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines: NDArray[np.float64] = (first * second).sum(axis=1) / lengths
    return cosines


def _tokenizer(max_tokens: int | None) -> Tokenizer:
    """The tokenizer of the encoder that ships, which truncates at `max_tokens`."""
    found = Tokenizer.load(DEFAULT_ENCODER / TOKENIZER_FILE)
    if max_tokens is None:
        return found
    inner = tokenizers.Tokenizer.from_str(found.to_json())
    inner.enable_truncation(max_tokens)
    return Tokenizer(inner)
