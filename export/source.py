"""A checkpoint on disk or on the hub to a torch encoder that is ready for export."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from retrieval.errors import InvalidArgumentError
from retrieval.extras import extra
from training.errors import ModelError
from training.loading import (
    choose_max_tokens,
    find_model,
    load_model,
    pooling_of,
    truncating_tokenizer,
)
from training.quiet import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PoolingMode = Literal["mean", "cls"]


@dataclass(frozen=True, slots=True)
class Source:
    """A torch encoder, Transformer → Pooling → … → Normalize, and how it reads text.

    `tokenizer_json` truncates to `max_tokens`, special tokens included, and never pads.
    """

    model: "SentenceTransformer"
    name: str
    tokenizer_json: str
    max_tokens: int
    pooling: str
    dim: int


def load_source(
    model: str | Path, *, pooling: PoolingMode | None = None, max_tokens: int | None = None
) -> Source:
    """Load a Sentence Transformers directory, or any Hugging Face checkpoint with `pooling`.

    `model` is a directory or a name on the hub. A model that does not normalise its embeddings
    does so from here on. `max_tokens` defaults to what the model itself says. No code that comes
    with a model is ever run.

    :raises InvalidArgumentError: When there is no such model, `pooling` is missing or contradicts
        the model, or `max_tokens` is out of range.
    :raises ModelError: When the model cannot be loaded, needs code of its own, lacks weights, is
        no text encoder of the kind above, or has no fast tokenizer.
    """
    with extra("export"), quiet():
        import sentence_transformers  # noqa: F401 - so that its absence is told before the rest
    folder = find_model(model)
    # The plain form of attention is the one that ONNX Runtime's optimiser recognises.
    encoder = load_model(folder, attention="eager")
    _complete(encoder, folder, pooling)
    chosen = choose_max_tokens(encoder, max_tokens)
    encoder.max_seq_length = chosen
    return Source(
        model=encoder.eval(),
        name=folder.resolve().name if Path(model).is_dir() else str(model),
        tokenizer_json=truncating_tokenizer(encoder, chosen).to_str(),
        max_tokens=chosen,
        pooling=pooling_of(encoder),
        dim=_embedding_dimension(encoder),
    )


def _complete(encoder: "SentenceTransformer", folder: Path, pooling: PoolingMode | None) -> None:
    """Add the pooling that a plain checkpoint lacks, and a normalisation where there is none."""
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    if len(encoder) == 1:
        if pooling is None:
            raise InvalidArgumentError(
                f"{folder} does not say how its token embeddings are pooled: pass --pooling mean "
                "or --pooling cls"
            )
        encoder.append(Pooling(encoder[0].get_embedding_dimension(), pooling))
    elif pooling is not None and pooling != pooling_of(encoder):
        raise InvalidArgumentError(
            f"pooling {pooling!r} contradicts {folder}, which has {pooling_of(encoder)!r}"
        )
    if not isinstance(encoder[-1], Normalize):
        encoder.append(Normalize())


def _embedding_dimension(model: "SentenceTransformer") -> int:
    dimension = model.get_embedding_dimension()
    if dimension is None:
        raise ModelError("the model does not say how wide its embeddings are")
    return int(dimension)
