"""Towers: the language model and the pooling of a query or document encoder."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from swiftlet.encoders.encoder import Role
from swiftlet.encoders.tokenizer import Tokenizer, cleaning_for
from swiftlet.errors import InvalidArgumentError
from training.model.attention import fastest_attention
from training.model.errors import ModelError
from training.model.folders import find_model
from training.model.loading import (
    choose_max_tokens,
    load_model,
    prompts_of,
    truncating_tokenizer,
)
from training.model.lookup import bags, is_lookup, make_lookup, table_of
from training.model.poolings import POOLINGS, make_pooling, pooling_of, unit_length, vectors_of
from training.model.quiet import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
"""The names of dropout probabilities in configurations."""

# A character of the private use area, which no vocabulary has.
_UNKNOWN_CHARACTER = "\U000f0000"


@dataclass(frozen=True, slots=True)
class TowerSettings:
    """The model of a tower and the changes to it.

    :param model: A Sentence Transformers directory or any Hugging Face checkpoint, or the name of
        either on the hub; or an encoder that was exported, or the name of one that ships.
    :param layers: The layers that are kept, by number from 0, in the order given; by default all.
        With no layers, `()`, the tower averages non-contextual token embeddings: the ablation of
        self-attention (001, section 7.1).
    :param pooling: One of `POOLINGS`, such as the output of the first token, the mean of all
        outputs, or the first `first_tokens` outputs as one vector each; by default the model's own
        pooling, which a plain checkpoint lacks.
    :param max_tokens: Texts are truncated to this many tokens; by default the model's own setting.
    :param dropout: The probability of dropout everywhere; by default the model's own setting.
    :param random_weights: Initialise all weights with torch's random generator: the ablation of
        pre-training (001, section 7.1).
    :param trust_remote_code: Allow code that comes with the model to run.
    :param role: What its texts are: the model's own prompt for them stands before each.
    """

    model: str | Path
    layers: tuple[int, ...] | None = None
    pooling: str | None = None
    first_tokens: int = 8
    max_tokens: int | None = None
    dropout: float | None = None
    random_weights: bool = False
    trust_remote_code: bool = False
    role: Role | None = None


class Tower(nn.Module):
    """Transformer → Pooling → the model's own Dense, if it has any; or a look-up encoder.

    A text has `vectors` vectors of `width` numbers each. Texts are truncated to `max_tokens`,
    special tokens included.
    """

    def __init__(
        self,
        encoder: "SentenceTransformer",
        max_tokens: int,
        prompts: Mapping[Role, str] | None = None,
        role: Role | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.prompts = dict(prompts or {})
        self.prompt = "" if role is None else self.prompts.get(role, "")
        self.max_tokens = max_tokens
        self.width = int(encoder.get_embedding_dimension() or 0)
        self.vectors = vectors_of(encoder)
        self.is_lookup = is_lookup(encoder)
        # A copy, so that the padding and truncation of the saved tokenizer stay as they are.
        tokenizer = encoder.tokenizer
        self._tokenizer = truncating_tokenizer(tokenizer, max_tokens)
        self._clean = cleaning_for(self._tokenizer)
        if self.is_lookup:
            tokenizer.enable_truncation(max_tokens)
            self._tokenizer.enable_padding()
            return
        encoder.max_seq_length = max_tokens
        self._tokenizer.enable_padding(
            direction=tokenizer.padding_side,
            pad_id=tokenizer.pad_token_id,
            pad_token=tokenizer.pad_token,
        )

    @classmethod
    def load(cls, settings: TowerSettings) -> "Tower":
        """Load the tower that `settings` describe, on the CPU, in float32.

        :raises InvalidArgumentError: When there is no such model, a setting is out of range, or
            the pooling is missing.
        :raises ModelError: When the model cannot be loaded, needs its own code, lacks weights,
            has no fast tokenizer or one without the needed tokens, or cannot be cut.
        """
        folder = find_model(settings.model)
        dropout = {} if settings.dropout is None else dict.fromkeys(DROPOUT, settings.dropout)
        encoder = load_model(folder, config=dropout, trust_remote_code=settings.trust_remote_code)
        prompts = prompts_of(encoder)
        if is_lookup(encoder):
            _check_lookup_settings(settings, folder)
            max_tokens = choose_max_tokens(encoder, settings.max_tokens)
            return cls(table_of(encoder), max_tokens, prompts, settings.role)
        encoder = _pooled(encoder, settings, folder)
        _check_tokenizer(encoder, folder)
        max_tokens = choose_max_tokens(encoder, settings.max_tokens)
        if vectors_of(encoder) > max_tokens:
            raise InvalidArgumentError(
                f"document_encoder.first_tokens {vectors_of(encoder)} is out of range: a text has "
                f"at most max_tokens, {max_tokens}"
            )
        if settings.layers is not None:
            keep_layers(encoder[0].auto_model, settings.layers, folder)
        if settings.random_weights:
            _reset(encoder)
        if getattr(encoder[0].auto_model, "pooler", None) is not None:
            # It is not used, and weights without a gradient block distributed training.
            encoder[0].auto_model.pooler = None
        return cls(encoder, max_tokens, prompts, settings.role)

    def tokenise(
        self, texts: Sequence[str], device: torch.device | None = None, role: Role | None = None
    ) -> dict[str, Tensor]:
        """Token ids and attention mask (n, tokens) of `texts`, padded to the longest of them.

        :param device: Where they are; by default on the CPU.
        :param role: What these texts are, if not what the tower's texts are.
        """
        prompt = self.prompts.get(role, "") if role else self.prompt
        texts = [self._clean(prompt + text).strip() for text in texts]
        encodings = self._tokenizer.encode_batch(texts)
        return {
            "input_ids": torch.tensor([encoding.ids for encoding in encodings], device=device),
            "attention_mask": torch.tensor(
                [encoding.attention_mask for encoding in encodings], device=device
            ),
        }

    def unknown_share(self, texts: Sequence[str]) -> float:
        """The share of the tokens of `texts` that stand for unknown words and characters."""
        inner = Tokenizer(truncating_tokenizer(self.encoder.tokenizer, self.max_tokens))
        ids = [number for text in texts for number in inner.encode(text)]
        return sum(each == inner.unknown_id for each in ids) / max(1, len(ids))

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        """Pooled outputs (n, vectors · width) of tokenised texts, not projected or normalised."""
        if self.is_lookup:
            found: Tensor = self.encoder(bags(features))["sentence_embedding"]
            return found
        # With gradient checkpointing, both forward passes must use the same attention.
        again = self.encoder[0].auto_model.is_gradient_checkpointing
        with nullcontext() if again else fastest_attention(features["input_ids"]):
            outputs: Tensor = self.encoder(dict(features))["sentence_embedding"]
        return outputs.flatten(1)

    def token_outputs(self, features: dict[str, Tensor]) -> Tensor:
        """The outputs (n, tokens, width) of all tokens of tokenised texts, before any pooling."""
        outputs: Tensor = self.encoder[0](dict(features))["token_embeddings"]
        return outputs

    @property
    def token_embeddings(self) -> nn.Embedding:
        """The embeddings of tokens without context.

        :raises InvalidArgumentError: When it is a look-up encoder, which is nothing else.
        """
        if self.is_lookup:
            raise InvalidArgumentError(
                "a look-up encoder has token embeddings of its own: set dual_encoder.sharing to "
                "'none'"
            )
        embeddings: nn.Embedding = self.encoder[0].auto_model.get_input_embeddings()
        return embeddings

    def set_gradient_checkpointing(self, enabled: bool) -> None:
        """Enable or disable gradient checkpointing.

        :raises ModelError: When the architecture does not support it.
        """
        model = self.encoder[0].auto_model
        if not enabled:
            model.gradient_checkpointing_disable()
            return
        try:
            # The reentrant form gives no gradient if the input of the layers needs none.
            model.gradient_checkpointing_enable({"use_reentrant": False})
        except ValueError as error:
            raise ModelError(
                f"a {type(model).__name__} does not support gradient checkpointing"
            ) from error

    def with_projection(self, projection: nn.Linear | None) -> "SentenceTransformer":
        """The whole encoder, Transformer → Pooling → … → Dense → Normalize, with shared weights."""
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Dense, LayerNorm

        modules: list[Any] = list(self.encoder)
        if projection is not None:
            dense = Dense(
                projection.in_features,
                projection.out_features,
                bias=projection.bias is not None,
                activation_function=nn.Identity(),
            )
            dense.linear.weight, dense.linear.bias = projection.weight, projection.bias
            modules.append(dense)
        if isinstance(projection, NormalisedLinear):
            layer_norm = LayerNorm(projection.out_features)
            layer_norm.norm = projection.norm
            modules.append(layer_norm)
        device = next(self.parameters()).device
        modules.append(unit_length(modules))
        prompts = {
            "query": self.prompts.get("query", ""),
            "document": self.prompts.get("passage", ""),
        }
        return SentenceTransformer(modules=modules, device=str(device), prompts=prompts)

    @torch.no_grad()
    def save(self, directory: Path, projection: nn.Linear | None = None) -> None:
        """Write the whole encoder as a Sentence Transformers directory, truncation included.

        A look-up table is projected: the mean of projected vectors is the projected mean.
        """
        tower = self
        if self.is_lookup and type(projection) is nn.Linear:
            table = projection(self.encoder[0].embedding.weight).cpu()
            lookup = make_lookup(self.encoder.tokenizer, table, self.max_tokens)
            tower, projection = Tower(lookup, self.max_tokens, self.prompts), None
        with quiet():
            tower.with_projection(projection).save(str(directory), create_model_card=False)


class NormalisedLinear(nn.Linear):
    """A linear map and a layer normalisation: the projection of DE-BERT-k (002, section 4.1)."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.norm = nn.LayerNorm(out_features)

    def forward(self, outputs: Tensor) -> Tensor:
        """Map and normalise (…, in_features)."""
        normalised: Tensor = self.norm(super().forward(outputs))
        return normalised


def _check_lookup_settings(settings: TowerSettings, folder: Path) -> None:
    for name in ("layers", "pooling", "dropout"):
        value = getattr(settings, name)
        if value is not None and (name, value) != ("dropout", 0):
            raise InvalidArgumentError(f"{folder} is a look-up encoder, which has no {name}")


def _pooled(
    encoder: "SentenceTransformer", settings: TowerSettings, folder: Path
) -> "SentenceTransformer":
    """`encoder` with the pooling of `settings`, and without a final normalisation."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize

    transformer, *others = encoder
    if not others and settings.pooling is None:
        raise InvalidArgumentError(
            f"{folder} does not define a pooling: choose one of {', '.join(POOLINGS)}"
        )
    if settings.pooling is not None:
        name, width = settings.pooling, transformer.get_embedding_dimension()
        others[:1] = [make_pooling(name, width, **asdict(settings))]
    if isinstance(others[-1], Normalize):
        others.pop()
    pooled = SentenceTransformer(modules=[transformer, *others], device="cpu")
    if settings.layers == () and pooling_of(pooled) == "cls":
        raise InvalidArgumentError(
            "without layers the first token has the same output in every text: a pooling other "
            "than cls is needed"
        )
    return pooled


def _check_tokenizer(encoder: "SentenceTransformer", folder: Path) -> None:
    tokenizer = encoder.tokenizer
    if tokenizer.pad_token_id is None:
        raise ModelError(f"the tokenizer of {folder} has no padding token")
    num_embeddings = encoder[0].auto_model.get_input_embeddings().num_embeddings
    token, number = max(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if number >= num_embeddings:
        raise ModelError(
            f"the tokenizer of {folder} gives {token!r} the number {number}, but the model has "
            f"embeddings for the numbers 0 to {num_embeddings - 1}"
        )
    try:
        ids = tokenizer.backend_tokenizer.encode(_UNKNOWN_CHARACTER).ids
    except Exception as error:  # the library raises no subclass
        raise ModelError(
            f"the tokenizer of {folder} has no token for unknown characters"
        ) from error
    if pooling_of(encoder) == "cls" and ids[:1] not in (
        [tokenizer.cls_token_id],
        [tokenizer.bos_token_id],
    ):
        raise ModelError(
            f"the tokenizer of {folder} adds no special token before a text, so that pooling cls "
            "would take the output of the first word"
        )


def keep_layers(model: nn.Module, layers: tuple[int, ...], folder: Path) -> None:
    """Keep some layers of a transformer, in the order given.

    :raises InvalidArgumentError: When there is no such layer, or it is named twice.
    :raises ModelError: When the model has no list of layers.
    """
    config: Any = model.config
    owner, name = _layer_list(model, config.num_hidden_layers, folder)
    present = getattr(owner, name)
    for number in layers:
        if not 0 <= number < len(present):
            raise InvalidArgumentError(
                f"layer {number} does not exist: {folder} has layers 0 to {len(present) - 1}"
            )
        if layers.count(number) > 1:
            raise InvalidArgumentError(f"layers {list(layers)} name layer {number} twice")
    setattr(owner, name, nn.ModuleList([present[number] for number in layers]))
    config.num_hidden_layers = len(layers)


def _layer_list(model: nn.Module, num_layers: int, folder: Path) -> tuple[nn.Module, str]:
    """The module that has the list of layers, and the name of the list in it."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.ModuleList) and len(child) == num_layers:
                return module, name
    raise ModelError(
        f"{folder} cannot be cut: a {type(model).__name__} has no list of its {num_layers} layers"
    )


def _reset(encoder: "SentenceTransformer") -> None:
    """Give every weight its initial value."""
    transformer, _, *others = encoder
    transformer.model = type(transformer.auto_model)(transformer.auto_model.config)
    for other in others:
        for module in other.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
