"""Loads a checkpoint from disk or from the hub as a torch encoder for export."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swiftlet.encoders.encoder import Role
from swiftlet.errors import InvalidArgumentError
from swiftlet.extras import extra
from training.model.errors import ModelError
from training.model.folders import find_model
from training.model.loading import (
    choose_max_tokens,
    load_model,
    prompts_of,
    truncating_tokenizer,
)
from training.model.lookup import is_lookup
from training.model.poolings import POOLINGS, make_pooling, pooling_of, unit_length, vectors_of
from training.model.quiet import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@dataclass(frozen=True, slots=True)
class Source:
    """A torch encoder, Transformer → Pooling → … → Normalize or a look-up one, and its tokenizer.

    It gives a text `vectors` vectors of `dim` numbers. `tokenizer_json` truncates to `max_tokens`,
    special tokens included, and never pads. `prompts` stand before queries and before passages.
    """

    model: "SentenceTransformer"
    name: str
    tokenizer_json: str
    max_tokens: int
    pooling: str
    dim: int
    vectors: int = 1
    prompts: Mapping[Role, str] = field(default_factory=dict)

    @property
    def is_lookup(self) -> bool:
        """Whether it is a table of token vectors, without a transformer."""
        return is_lookup(self.model)

    @property
    def network(self) -> Any:
        """The transformer, or the table of token vectors."""
        return self.model[0] if self.is_lookup else self.model[0].auto_model

    @property
    def details(self) -> dict[str, Any]:
        """The fields of the manifest that few models have."""
        found: dict[str, Any] = {}
        if self.vectors > 1:
            found["vectors"] = self.vectors
        if any(self.prompts.values()):
            found["prompts"] = dict(self.prompts)
        return found


def load_source(
    model: str | Path,
    *,
    pooling: str | None = None,
    max_tokens: int | None = None,
    prompts: Mapping[Role, str] | None = None,
    dim: int | None = None,
) -> Source:
    """Load a Sentence Transformers directory, or any Hugging Face checkpoint with `pooling`.

    `model` is a directory or a name on the hub. A normalisation is added if the model has none.
    `max_tokens` and `prompts` default to the model's own. Code that comes with a model is never
    run.

    :param dim: Keep the first numbers of an embedding alone (Kusupati et al., "Matryoshka
        Representation Learning", 2022).
    :raises InvalidArgumentError: When there is no such model, `pooling` is missing or contradicts
        the model, or `max_tokens` is out of range.
    :raises ModelError: When the model cannot be loaded, needs its own code, lacks weights, is
        no text encoder of the kind above, or has no fast tokenizer.
    """
    with extra("export"), quiet():
        import sentence_transformers  # noqa: F401 - fails first if the extra is missing
    folder = find_model(model)
    # The optimiser of ONNX Runtime recognises only eager attention.
    encoder = load_model(folder, attention="eager")
    prompts = {**prompts_of(encoder), **(prompts or {})}
    encoder.default_prompt_name = None  # `encode` would put it before every text
    _complete(encoder, folder, pooling)
    if dim is not None:
        _shorten(encoder, folder, dim)
    tokenizer = encoder.tokenizer
    if not is_lookup(encoder) and tokenizer.pad_token is None:
        # Sentence Transformers needs one, though a single text is never padded.
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
    chosen = choose_max_tokens(encoder, max_tokens)
    if is_lookup(encoder):
        encoder.tokenizer.enable_truncation(chosen)
    else:
        encoder.max_seq_length = chosen
    return Source(
        model=encoder.eval(),
        name=folder.resolve().name if Path(model).is_dir() else str(model),
        tokenizer_json=truncating_tokenizer(encoder.tokenizer, chosen).to_str(),
        max_tokens=chosen,
        pooling="mean" if is_lookup(encoder) else pooling_of(encoder),
        dim=_embedding_dimension(encoder),
        vectors=vectors_of(encoder),
        prompts=prompts,
    )


def _complete(encoder: "SentenceTransformer", folder: Path, pooling: str | None) -> None:
    """Add pooling and normalisation if they are missing."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    if is_lookup(encoder):
        if pooling not in (None, "mean"):
            raise InvalidArgumentError(f"{folder} is a look-up encoder, which has no {pooling!r}")
    elif len(encoder) == 1:
        if pooling is None:
            raise InvalidArgumentError(
                f"{folder} does not define a pooling: pass --pooling with one of "
                f"{', '.join(POOLINGS)}"
            )
        encoder.append(make_pooling(pooling, encoder[0].get_embedding_dimension()))
    elif pooling is not None and pooling != pooling_of(encoder):
        raise InvalidArgumentError(
            f"pooling {pooling!r} contradicts {folder}, which has {pooling_of(encoder)!r}"
        )
    if not isinstance(encoder[-1], Normalize):
        encoder.append(unit_length(encoder))


def _shorten(encoder: "SentenceTransformer", folder: Path, dim: int) -> None:
    """Keep the first `dim` numbers of an embedding, before its normalisation."""
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense

    width = _embedding_dimension(encoder)
    if is_lookup(encoder) or vectors_of(encoder) > 1:
        raise InvalidArgumentError(
            f"{folder} is a look-up encoder or has several vectors, which are not shortened: leave "
            "the dim out"
        )
    if not 0 < dim <= width:
        raise InvalidArgumentError(f"dim is {dim}, but 1 to {width} is expected")
    first = Dense(width, dim, bias=False, activation_function=torch.nn.Identity())
    first.linear.weight.data = torch.eye(dim, width)
    encoder.insert(len(encoder) - 1, first)


def _embedding_dimension(model: "SentenceTransformer") -> int:
    dimension = model.get_embedding_dimension()
    if dimension is None:
        raise ModelError("the model does not define the size of its embeddings")
    return int(dimension)
