"""Cross-encoders: a transformer that reads a query and a text together and gives one score."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from swiftlet.errors import InvalidArgumentError
from swiftlet.text import normalise
from training.model.attention import fastest_attention
from training.model.errors import ModelError
from training.model.folders import find_model, is_cross_encoder
from training.model.loading import choose_max_tokens, load_model, truncating_tokenizer
from training.model.lookup import is_lookup
from training.model.quiet import quiet
from training.model.towers import DROPOUT, TowerSettings, keep_layers

_NEW = ("pooler.", "classifier.")
"""The weights that only a trained cross-encoder has."""
_WEIGHT = "rerank_weight"
_TYPES = "embeddings.token_type_embeddings.weight"


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a text to be scored for it."""

    query: str
    text: str


class CrossEncoder(nn.Module):
    """A transformer with one output for a pair of a query and a text, as one sequence of tokens.

    A pair is truncated to `max_tokens`, special tokens included, the longer of the two first.
    """

    def __init__(self, model: Any, tokenizer: Any, max_tokens: int) -> None:
        super().__init__()
        self.model = model
        self.max_tokens = max_tokens
        self._whole_tokenizer = tokenizer
        self.tokenizer = truncating_tokenizer(tokenizer, max_tokens)
        self._padding = truncating_tokenizer(tokenizer, max_tokens)
        self._padding.enable_padding(
            direction=tokenizer.padding_side,
            pad_id=tokenizer.pad_token_id,
            pad_token=tokenizer.pad_token,
        )
        self._inputs = set(tokenizer.model_input_names)

    @classmethod
    def load(
        cls, settings: TowerSettings, *, attention: Literal["eager"] | None = None
    ) -> "CrossEncoder":
        """Load a trained cross-encoder, or begin one with any encoder and a random head.

        :param settings: The model and changes to it; a cross-encoder has no pooling.
        :raises InvalidArgumentError: When there is no such model, or a setting is out of range.
        :raises ModelError: When it cannot be loaded, or gives more than one score.
        """
        folder = find_model(settings.model)
        if settings.pooling is not None:
            raise InvalidArgumentError(
                f"pooling is {settings.pooling!r}, but a cross-encoder has none: leave it out"
            )
        if is_cross_encoder(folder):
            model, tokenizer, limit = _trained(folder, settings, attention)
        else:
            model, tokenizer, limit = _begun(folder, settings)
        if settings.layers is not None:
            keep_layers(model.base_model, settings.layers, folder)
        if tokenizer.pad_token is None:
            raise ModelError(f"the tokenizer of {folder} has no padding token")
        fewest = 2 + tokenizer.num_special_tokens_to_add(pair=True)
        if limit < fewest:
            raise InvalidArgumentError(
                f"max_tokens {limit} is out of range: a query and a text take at least {fewest}"
            )
        return cls(model, tokenizer, limit)

    @property
    def weight(self) -> float:
        """The weight of its scores in the order of documents, which its configuration keeps.

        It is 1 unless a training has chosen it: see `swiftlet.encoders.reranker.order_by`.
        """
        return float(getattr(self.model.config, _WEIGHT, 1.0))

    @weight.setter
    def weight(self, weight: float) -> None:
        setattr(self.model.config, _WEIGHT, weight)

    def tokenise(self, pairs: Sequence[Pair]) -> dict[str, torch.Tensor]:
        """The inputs of the model, (n, tokens) each, padded to the longest pair."""
        found = self._padding.encode_batch(
            [(normalise(each.query).strip(), normalise(each.text).strip()) for each in pairs]
        )
        features = {
            "input_ids": torch.tensor([each.ids for each in found]),
            "attention_mask": torch.tensor([each.attention_mask for each in found]),
            "token_type_ids": torch.tensor([each.type_ids for each in found]),
        }
        return {name: ids for name, ids in features.items() if name in self._inputs}

    def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
        """The scores (n,) of tokenised pairs: any numbers, greater for more relevant texts."""
        with fastest_attention(features["input_ids"]):
            scores: torch.Tensor = self.model(**features).logits[:, 0]
        return scores

    def save(self, directory: Path) -> None:
        """Write a directory that transformers and Sentence Transformers' CrossEncoder load."""
        tokenizer = deepcopy(self._whole_tokenizer)
        tokenizer.model_max_length = self.max_tokens
        with quiet():
            self.model.save_pretrained(str(directory))
            tokenizer.save_pretrained(str(directory))


def _trained(folder: Path, settings: TowerSettings, attention: str | None) -> tuple[Any, Any, int]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    kind: dict[str, Any] = {} if attention is None else {"attn_implementation": attention}
    if settings.dropout is not None:
        kind |= dict.fromkeys(DROPOUT, settings.dropout)
    shared = {"local_files_only": True, "trust_remote_code": settings.trust_remote_code}
    with quiet():
        try:
            model, report = AutoModelForSequenceClassification.from_pretrained(
                str(folder), dtype=torch.float32, output_loading_info=True, **shared, **kind
            )
            tokenizer = AutoTokenizer.from_pretrained(str(folder), **shared)
        except Exception as error:  # a broken checkpoint makes the libraries raise many types
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(f"{folder} cannot be loaded: {reason}") from error
    if report["missing_keys"]:
        raise ModelError(f"{folder} lacks weights, such as {min(report['missing_keys'])}")
    if model.config.num_labels != 1:
        raise ModelError(
            f"{folder} gives {model.config.num_labels} scores for a pair, but a re-ranker gives "
            "one: choose a cross-encoder that was trained for ranking"
        )
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"{folder} has only a slow tokenizer, but a tokenizer.json is needed")
    positions = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    known = min(positions, tokenizer.model_max_length)
    if settings.max_tokens is not None and settings.max_tokens > known:
        raise InvalidArgumentError(
            f"max_tokens {settings.max_tokens} is out of range: this model takes up to {known}"
        )
    return model, tokenizer, settings.max_tokens or known


def _begun(folder: Path, settings: TowerSettings) -> tuple[Any, Any, int]:
    from transformers import AutoModelForSequenceClassification

    dropout = {} if settings.dropout is None else dict.fromkeys(DROPOUT, settings.dropout)
    encoder = load_model(folder, config=dropout, trust_remote_code=settings.trust_remote_code)
    if is_lookup(encoder):
        raise InvalidArgumentError(
            f"{folder} is a look-up encoder, which reads no pairs: begin with a transformer"
        )
    transformer = encoder[0].auto_model
    config = deepcopy(transformer.config)
    config.num_labels = 1
    weights = transformer.state_dict()
    if "token_type_ids" in encoder.tokenizer.model_input_names and config.type_vocab_size == 1:
        # An exported encoder has kept the type of single texts alone.
        config.type_vocab_size = 2
        weights[_TYPES] = weights[_TYPES].repeat(2, 1)
    with quiet():
        model = AutoModelForSequenceClassification.from_config(config)
    found = model.base_model.load_state_dict(weights, strict=False)
    if missing := [name for name in found.missing_keys if not name.startswith(_NEW)]:
        raise ModelError(f"{folder} lacks weights of a cross-encoder, such as {missing[0]}")
    return model, encoder.tokenizer, choose_max_tokens(encoder, settings.max_tokens)
