"""Measures the parity of an exported encoder with its torch encoder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from export.errors import ExportError
from export.sample_texts import lengths_to_sample, sample_texts
from export.source import Source
from swiftlet.encoders.encoder import Encoder
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.text import normalise
from swiftlet.types import Embeddings
from training.model.quiet import quiet

SMALLEST_FP32_COSINE = 0.99999
"""An fp32 graph below this does not compute the same function."""

# Cases that random vocabulary words lack: spaces, accents, digits, scripts, symbols, unknown words.
_AWKWARD_TEXTS = (
    "",
    "   Leading spaces, a tab\tand a line\nbreak.  ",
    "Crème brûlée à la Zürich — naïve façade, Ångström.",
    "On 2021-03-14 at 09:26, 3.14159% of 1,000,000 = 31,415.9 (approx.).",
    "東京タワーは333メートル。Москва, العربية, ελληνικά, हिन्दी",
    "👩‍🔬🧬 e=mc² ½ ™ http://example.org/?q=a+b&c=d#e",
    "Donaudampfschifffahrtsgesellschaftskapitän" * 3,
    "the cat's \"don't\" -- e.g. C++/C#, A.B.C. [MASK] <s> </s> [SEP]",
)


@dataclass(frozen=True, slots=True)
class Reference:
    """The embeddings (n, dim) by torch of texts of all lengths, by their token ids."""

    token_ids: tuple[list[int], ...]
    embeddings: Embeddings


@dataclass(frozen=True, slots=True)
class Parity:
    """Cosines between the embeddings of an encoder and of torch, over texts of all lengths."""

    num_texts: int
    shortest_tokens: int
    longest_tokens: int
    min_cosine: float
    mean_cosine: float


def torch_reference(source: Source, tokenizer: Tokenizer) -> Reference:
    """Embeddings by Sentence Transformers of texts with one to more than `max_tokens` tokens.

    :raises ExportError: When it tokenises a text otherwise than `tokenizer`, or fails.
    """
    lengths = lengths_to_sample(source.max_tokens, tokenizer.num_special_tokens)
    too_long, cut = 2 * source.max_tokens, 8 * source.max_tokens
    texts = [*sample_texts(source.tokenizer_json, [*lengths, too_long]), *_AWKWARD_TEXTS]
    texts += [prompt + text for prompt in filter(None, source.prompts.values()) for text in texts]
    texts = [normalise(text).strip() for text in texts]
    rows, read = [], []
    (words,) = sample_texts(source.tokenizer_json, [cut])
    with quiet(), one_thread():
        # Of long texts, the encoder reads a part: with words, with blanks, and without blanks.
        for text in (words, words.replace(" ", " " * 20), words.replace(" ", "")):
            _tokens(source, tokenizer, text)
        for text in texts:
            token_ids = _tokens(source, tokenizer, text)
            read.append(token_ids)
            # One text per run, without padding.
            try:
                rows.append(source.model.encode([text], show_progress_bar=False)[0].ravel())
            except Exception as error:  # a model can raise any type for unsupported inputs
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise ExportError(
                    f"the model fails on a text of {len(token_ids)} tokens: {reason}"
                ) from error
    return Reference(tuple(read), np.stack(rows).astype(np.float32))


def _tokens(source: Source, tokenizer: Tokenizer, text: str) -> list[int]:
    expected = source.model.tokenize([text])["input_ids"].flatten().tolist()
    token_ids = tokenizer.encode(text)
    if token_ids != expected:
        raise ExportError(
            f"tokenizer.json reads {text[:40]!r} as {token_ids[:8]}, but Sentence Transformers as "
            f"{expected[:8]}"
        )
    return token_ids


def measure_parity(encoder: Encoder, reference: Reference) -> Parity:
    """Compare the embeddings of `encoder` with the reference, text by text."""
    embeddings = np.stack([encoder.embed(token_ids) for token_ids in reference.token_ids])
    lengths = [*map(len, reference.token_ids)]
    shape = (-1, encoder.dim)  # each of several vectors counts
    cosines = _cosines(embeddings.reshape(shape), reference.embeddings.reshape(shape))
    return Parity(
        num_texts=len(lengths),
        shortest_tokens=min(lengths),
        longest_tokens=max(lengths),
        # NaN counts as the smallest cosine.
        min_cosine=float(np.nan_to_num(cosines, nan=-1.0).min()),
        mean_cosine=float(np.nan_to_num(cosines, nan=-1.0).mean()),
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, because more do not help with short texts and are slower on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _cosines(embeddings: Embeddings, others: Embeddings) -> NDArray[np.float64]:
    a, b = embeddings.astype(np.float64), others.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    # A look-up encoder gives zeros for a text without tokens.
    both_zero = ~a.any(axis=1) & ~b.any(axis=1)
    cosines: NDArray[np.float64] = (a * b).sum(axis=1) / np.where(both_zero, 1.0, norms)
    return cosines + both_zero
