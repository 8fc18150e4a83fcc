"""Text to embedding: the protocol of encoders, and the one that runs on ONNX Runtime."""

import json
import os
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Literal, Protocol, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from swiftlet import encoders
from swiftlet.arguments import StrPath, path_of, whole_number
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import (
    CorruptArtefactError,
    InvalidArgumentError,
    ManifestError,
    shown,
)
from swiftlet.manifest import Manifest, load_manifest, read_manifest
from swiftlet.types import Embeddings

Precision = Literal["fp32", "int8", "int8_static"]
"""int8 takes the scales of activations from each text; int8_static has fixed ones.

Exports no longer write int8_static.
"""

MODEL_FILES: dict[Precision, str] = {
    "fp32": "model.onnx",
    "int8": "model_int8.onnx",
    "int8_static": "model_int8_static.onnx",
}
Role = Literal["query", "passage"]
"""What a text is: some models read a prompt before each query, and another before each passage."""

TOKENIZER_FILE = "tokenizer.json"
CANONICAL_FILE = "canonical.json"

_CONSTANT_INPUTS = (("attention_mask", 1), ("token_type_ids", 0))

SMALLEST_CANONICAL_COSINE: dict[Precision, float] = {
    "fp32": 0.9999,
    "int8": 0.999,
    "int8_static": 0.999,
}
"""The smallest cosine of a canonical embedding on this machine with the stored one."""


class Encoder(Protocol):
    """Turns texts into embeddings of one embedding space.

    An embedding is a vector (dim,); or several, one after the other: of `width` numbers in all.
    """

    dim: int
    width: int
    max_tokens: int
    embedding_space: str

    def tokenise(self, text: str) -> list[int]:
        """Token ids of one text, truncated to `max_tokens`."""
        ...

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        """The normalised embedding (width,) of one tokenised text."""
        ...

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """The normalised embeddings (n, width) of `texts`."""
        ...


class ModelEncoder(Encoder, Protocol):
    """An encoder that can make an index: it has a name, a tokenizer and prompts for roles."""

    manifest: Manifest
    precision: Precision
    tokenizer: Tokenizer
    prompt: str
    waiting_seconds: float
    """About how long a text waits for another machine, or for a function."""

    def reading(self, role: Role) -> Self:
        """This encoder for texts of a role: with the prompt that it has for them."""
        ...


class OnnxEncoder:
    """An encoder directory in ONNX Runtime, one text per run, by default on the calling thread.

    With dynamic int8, the other texts of a batch change an embedding, so each text runs alone: the
    same text has the same embedding, bit for bit, alone or under load. Thread-safe; to use more
    cores, call it from more threads.

    The `prompt` stands before each text; `reading` gives an encoder with the prompt of a role.
    """

    prompt = ""
    waiting_seconds = 0.0

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        tokenizer: Tokenizer,
        manifest: Manifest,
        precision: Precision,
    ) -> None:
        self.tokenizer = tokenizer
        self.manifest = manifest
        self.precision = precision
        self.dim, self.width = manifest.dim, manifest.width
        self.max_tokens = tokenizer.max_tokens
        self.embedding_space = manifest.embedding_space
        self._session = session
        self._input_names = {node.name for node in session.get_inputs()}
        # The inputs that all texts of one length share; there are at most max_tokens lengths.
        self._inputs_of_length: dict[int, dict[str, NDArray[np.int64]]] = {}

    def __repr__(self) -> str:
        name = self.manifest.details.get("name", "")
        return f"OnnxEncoder({name!r}, {self.precision}, {self.dim} dimensions)"

    @classmethod
    def load(
        cls,
        directory: Path,
        *,
        precision: Precision | None = None,
        role: Role | None = None,
        verify: bool = True,
        threads: int = 1,
    ) -> "OnnxEncoder":
        """Open an encoder directory at `precision`, by default at the one that its manifest names.

        If an older manifest has no default precision, int8 is used if there is an int8 model.

        :param role: What its texts are; without, they have no prompt.
        :param verify: Whether to hash every file and encode the canonical texts again.
        :param threads: How many threads share the work of one text. More than one is only for
            measurements: for texts as short as queries, encoding several at once gains more.
        :raises ManifestError: When the directory is no encoder.
        :raises CorruptArtefactError: When a file is damaged, or the canonical embeddings drift.
        :raises InvalidArgumentError: When the encoder has no model of this `precision`, or
            `threads` is below 1.
        """
        threads = whole_number("threads", threads, least=1)
        read = load_manifest if verify else read_manifest
        manifest = read(directory, "encoder")
        precision = choose_precision(directory, manifest, precision)
        encoder = cls(
            session=open_session(directory / MODEL_FILES[precision], threads),
            tokenizer=Tokenizer.load(directory / TOKENIZER_FILE),
            manifest=manifest,
            precision=precision,
        )
        if verify:
            encoder._check_vocabulary(directory)
            encoder._check_canonical(directory / CANONICAL_FILE)
        return encoder if role is None else encoder.reading(role)

    def reading(self, role: Role) -> Self:
        """This encoder for texts of a role: with the prompt that its manifest has for them."""
        found = copy(self)
        found.prompt = self.manifest.details.get("prompts", {}).get(role, "")
        return found

    def tokenise(self, text: str) -> list[int]:
        """Token ids of the prompt and one text, with special tokens, truncated to `max_tokens`."""
        return self.tokenizer.encode(self.prompt + text if self.prompt else text)

    def inputs(self, token_ids: Sequence[int]) -> dict[str, NDArray[np.int64]]:
        """The inputs of the graph for one tokenised text, (1, tokens) each."""
        length = len(token_ids)
        if length not in self._inputs_of_length:
            constant = {name: np.full((1, length), value) for name, value in _CONSTANT_INPUTS}
            used = self._input_names & constant.keys()
            self._inputs_of_length[length] = {name: constant[name] for name in used}
        ids = np.array([token_ids], dtype=np.int64)
        return {"input_ids": ids, **self._inputs_of_length[length]}

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        """The normalised embedding (width,) of one tokenised text."""
        embedding: Embeddings = self._session.run(None, self.inputs(token_ids))[0].ravel()
        return embedding

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """The normalised embeddings (n, width) of `texts`, one after the other.

        :raises InvalidArgumentError: When `texts` is a single text, or holds anything but texts.
        """
        if isinstance(texts, str):
            raise InvalidArgumentError(
                "a single text is given where a list is expected: pass [text]"
            )
        if not isinstance(texts, Sequence | np.ndarray):
            raise InvalidArgumentError(
                f"texts is of the type {type(texts).__name__}, but a list of strings is expected"
            )
        embeddings = np.empty((len(texts), self.width), dtype=np.float32)
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidArgumentError(f"text {row} is {shown(text)}, but a string is expected")
            embeddings[row] = self.embed(self.tokenise(text))
        return embeddings

    def _check_vocabulary(self, directory: Path) -> None:
        """Check that the model embeds the tokens of the tokenizer as the manifest says.

        Of a transformer, only the last token is tried, which takes a millisecond; of a look-up
        table, all of them.
        """
        last = self.tokenizer.last_id
        is_table = self._input_names == {"input_ids"}
        for first in range(0 if is_table else last, last + 1, self.max_tokens):
            ids = range(first, min(first + self.max_tokens, last + 1))
            tokens = f"the tokens {ids[0]} to {ids[-1]} of its tokenizer"
            try:
                embedding = self.embed(ids)
            except Exception as error:  # the base class of onnxruntime's errors
                raise CorruptArtefactError(
                    f"the model of {directory} cannot embed {tokens}: they do not belong together; "
                    "export it again"
                ) from error
            if embedding.shape != (self.width,):
                raise CorruptArtefactError(
                    f"the model of {directory} gives embeddings of shape {embedding.shape}, but "
                    f"its manifest says {self.width} numbers; export it again"
                )
            if not np.isfinite(embedding).all():
                raise CorruptArtefactError(
                    f"the model of {directory} has numbers that are not finite for {tokens}; "
                    "export it again"
                )

    def _check_canonical(self, path: Path) -> None:
        try:
            canonical = json.loads(path.read_bytes())
            texts = canonical["texts"]
            expected = np.array(canonical["embeddings"][self.precision], dtype=np.float32)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptArtefactError(f"{path} is not a list of canonical texts") from error
        if expected.shape != (len(texts), self.width):
            raise CorruptArtefactError(
                f"{path} has embeddings of shape {expected.shape}, but {(len(texts), self.width)} "
                "is expected"
            )
        products = (self.encode(texts) * expected).reshape(len(texts), -1, self.dim)
        cosines = products.sum(axis=2).min(axis=1)
        bound = SMALLEST_CANONICAL_COSINE[self.precision]
        # `not >=` instead of `<`: NaN is drift too.
        if drifted := [n for n, cosine in enumerate(cosines) if not cosine >= bound]:
            raise CorruptArtefactError(
                f"{path.parent} does not give its canonical embeddings on this machine: text "
                f"{drifted[0]} has cosine {cosines[drifted[0]]:.5f}, at least {bound} is expected; "
                "export it again"
            )


def choose_precision(directory: Path, manifest: Manifest, precision: Precision | None) -> Precision:
    """The precision to open: the given one, or else the manifest's default.

    :raises ManifestError: When there is no model, or none of the default precision.
    :raises InvalidArgumentError: When there is none of the given `precision`.
    """
    available = [name for name, file in MODEL_FILES.items() if file in manifest.files]
    if not available:
        raise ManifestError(f"{directory} lists no model file")
    if precision is None:
        named = manifest.details.get("default_precision")
        if named is None:
            return "int8" if "int8" in available else available[0]
        if named not in available:
            raise ManifestError(
                f"{directory} names {named!r} as its default precision, but has "
                f"{' and '.join(available)}"
            )
        return available[available.index(named)]
    if precision not in available:
        raise InvalidArgumentError(
            f"{directory} has no {precision} model; it has {' and '.join(available)}"
        )
    return precision


def open_session(model: Path | bytes, threads: int) -> onnxruntime.InferenceSession:
    """A model in ONNX Runtime, which uses `threads` threads.

    :param model: Its file, or the content of one.
    :raises CorruptArtefactError: When it cannot be used.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # The arena keeps the memory of the longest text so far, which max_tokens bounds. Without it,
    # each large block is a system call, and the heap keeps more memory. Memory patterns would be
    # kept for every length.
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    options.log_severity_level = 4  # errors are raised
    # A model is one file, the one that was verified. References to other files are not followed.
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", os.devnull
    )
    try:
        content = model.read_bytes() if isinstance(model, Path) else model
        return onnxruntime.InferenceSession(
            content, sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # the base class of onnxruntime's errors
        name = model if isinstance(model, Path) else "the exported graph"
        raise CorruptArtefactError(f"{name} is not a usable ONNX model: {error}") from error


def load_encoder(
    directory: StrPath = encoders.DEFAULT_ENCODER,
    *,
    precision: Precision | None = None,
    threads: int = 1,
) -> OnnxEncoder:
    """Open an encoder directory, after every file is verified; by default the document encoder.

    :param precision: The model; None takes the encoder's default.
    :param threads: Threads that share the work of one text.
    :raises ArtefactError: When the encoder is damaged.
    :raises InvalidArgumentError: When an argument is of another type or out of range, or the
        encoder has no model of this precision.
    """
    found = encoders.find(path_of("directory", directory))
    return OnnxEncoder.load(found, precision=precision, threads=threads)
