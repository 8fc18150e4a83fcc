"""Encoders that `swiftlet export` wrote, as torch models that can be trained further."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from swiftlet.encoders.encoder import MODEL_FILES, TOKENIZER_FILE, OnnxEncoder, Precision
from swiftlet.extras import extra
from swiftlet.manifest import read_manifest
from training.model.errors import ModelError
from training.model.lookup import make_lookup
from training.model.poolings import make_pooling

if TYPE_CHECKING:
    import onnx
    from sentence_transformers import SentenceTransformer

Weights = NDArray[np.float32]

# With int8_static, the weights are in nodes of another form.
_READABLE: tuple[Precision, ...] = ("fp32", "int8")
_SPECIAL = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
_TEXTS = ("water", "how do bees find their way home", "The 2 of 3: re-encoded, non-trivial!")
_LEAST_COSINE = 0.99


def exported_model(folder: Path, config: Mapping[str, Any]) -> "SentenceTransformer":
    """The encoder of a directory that `swiftlet export` wrote: a look-up table, or a BERT.

    The weights of an int8 model are those that it computes with, so the encoder is as good as it.

    :param config: Changes to the transformer's configuration, such as its dropout.
    :raises ArtefactError: When the directory is damaged, or its model and tokenizer differ.
    :raises ModelError: When the encoder is of another architecture, or has only int8_static.
    """
    from tokenizers import Tokenizer

    with extra("export"):
        import onnx
    precisions = read_manifest(folder, "encoder").details["precisions"]
    precision = next((each for each in _READABLE if each in precisions), None)
    if precision is None:
        raise _not_trainable(folder)
    encoder = OnnxEncoder.load(folder, precision=precision)
    graph = _Graph(onnx.load_model(folder / MODEL_FILES[precision]).graph)
    max_tokens = encoder.manifest.details["max_tokens"]
    if (table := graph.lookup_table()) is not None:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        return _with_prompts(make_lookup(tokenizer, torch.from_numpy(table), max_tokens), encoder)
    try:
        model = _sentence_transformer(graph, folder, config)
        model.max_seq_length = max_tokens
        found = model.encode(list(_TEXTS), normalize_embeddings=True, show_progress_bar=False)
    except (LookupError, StopIteration, ValueError, RuntimeError) as error:
        raise _not_trainable(folder) from error
    if (found * encoder.encode(_TEXTS)).sum(axis=1).min() < _LEAST_COSINE:
        raise _not_trainable(folder)
    return _with_prompts(model, encoder)


def _with_prompts(model: "SentenceTransformer", encoder: OnnxEncoder) -> "SentenceTransformer":
    """The model with the prompts of an exported encoder."""
    model.prompts = {
        "query": encoder.reading("query").prompt,
        "document": encoder.reading("passage").prompt,
    }
    return model


def _not_trainable(folder: Path) -> ModelError:
    return ModelError(
        f"{folder} is an exported encoder that is neither a look-up table nor a BERT in fp32 or "
        "int8, and cannot be trained: name the model that it was exported from"
    )


def _sentence_transformer(
    graph: "_Graph", folder: Path, config: Mapping[str, Any]
) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    weights = graph.bert()
    tokens, width = weights["embeddings.word_embeddings.weight"].shape
    settings = BertConfig(
        vocab_size=tokens,
        hidden_size=width,
        num_hidden_layers=len(graph.attentions),
        num_attention_heads=graph.num_heads,
        intermediate_size=len(weights["encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(weights["embeddings.position_embeddings.weight"]),
        type_vocab_size=1,
    )
    settings.update(dict(config))
    bert = BertModel(settings, add_pooling_layer=False)
    bert.load_state_dict({name: torch.tensor(values) for name, values in weights.items()})
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / TOKENIZER_FILE), **_SPECIAL)
    with TemporaryDirectory() as checkpoint:
        bert.save_pretrained(checkpoint)
        tokenizer.save_pretrained(checkpoint)
        transformer = Transformer(checkpoint, model_kwargs={"dtype": torch.float32})
    pooling = make_pooling(read_manifest(folder).details["pooling"], width)
    return SentenceTransformer(modules=[transformer, pooling], device="cpu")


class _Graph:
    """The weights of an encoder's graph, with those in int8 as the floats that they stand for."""

    def __init__(self, graph: "onnx.GraphProto") -> None:
        import onnx

        self._constants = {
            each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer
        }
        self._producers = {name: node for node in graph.node for name in node.output}
        self._nodes = list(graph.node)

    def lookup_table(self) -> Weights | None:
        """The table of a look-up encoder, None for a transformer."""
        return self._table("vectors", "table")

    @cached_property
    def attentions(self) -> "list[onnx.NodeProto]":
        """The attention of each layer."""
        return [node for node in self._nodes if node.op_type in {"Attention", "QAttention"}]

    @property
    def num_heads(self) -> int:
        """The number of heads of a layer."""
        return next(int(a.i) for a in self.attentions[0].attribute if a.name == "num_heads")

    def bert(self) -> dict[str, Weights]:
        """The weights of a BERT by their names in transformers.

        :raises KeyError: When it has other weights.
        """
        weights: dict[str, Weights] = {}
        for kind in ("word", "position"):
            gathered = f"/0/embeddings/{kind}_embeddings/Gather_output_0"
            found = self._table(gathered, self._producers[gathered].input[0])
            if found is None:
                raise KeyError(gathered)
            weights[f"embeddings.{kind}_embeddings.weight"] = found
        # The export has added the embedding of the only type of tokens to the embeddings of words.
        width = weights["embeddings.position_embeddings.weight"].shape[1]
        weights["embeddings.token_type_embeddings.weight"] = np.zeros((1, width), np.float32)
        normalisations = ["embeddings"]
        for number, node in enumerate(self.attentions):
            layer = f"encoder.layer.{number}"
            normalisations += [f"{layer}.attention.output", f"{layer}.output"]
            matrix, bias = self._matrix(node), self._constants[node.input[2]]
            for place, part in enumerate(("query", "key", "value")):
                name = f"{layer}.attention.self.{part}"
                weights[f"{name}.weight"] = np.split(matrix, 3, axis=1)[place].T
                weights[f"{name}.bias"] = np.split(bias, 3)[place]
            name = f"{layer}.attention.output.dense"
            weights[f"{name}.weight"] = self._matrix(self._producers[_product(name)]).T
            weights[f"{name}.bias"] = self._bias(_product(name))
            weights |= self._feed_forward(layer)
        nodes = [node for node in self._nodes if node.op_type == "LayerNormalization"]
        for name, node in zip(normalisations, nodes, strict=True):
            for part, constant in zip(("weight", "bias"), node.input[1:3], strict=True):
                weights[f"{name}.LayerNorm.{part}"] = self._constants[constant]
        return weights

    def _feed_forward(self, layer: str) -> dict[str, Weights]:
        """gelu(x·A + b)·B, in which export/graphs/outliers.py may have computed neurons apart."""
        first, last = (f"{layer}.{part}.dense" for part in ("intermediate", "output"))
        a = self._matrix(self._producers[_product(first)])
        bias = self._bias(_product(first)).copy()
        product = self._producers[_product(last)]
        if product.op_type == "Add":
            others, apart = (self._producers[name] for name in product.input)
            b = self._matrix(others)
            neurons = np.flatnonzero(~b.any(axis=1))
            gelu = self._producers[apart.input[0]]
            a[:, neurons] = self._matrix(self._producers[gelu.input[0]])
            bias[neurons] = self._constants[gelu.input[1]]
            b[neurons] = self._constants[apart.input[1]]
        else:
            b = self._matrix(product)
        return {
            f"{first}.weight": a.T,
            f"{first}.bias": bias,
            f"{last}.weight": b.T,
            f"{last}.bias": self._bias(_product(last)),
        }

    def _bias(self, product: str) -> Weights:
        """The constant that is added to a product."""
        reader = next(
            node
            for node in self._nodes
            if node.op_type in {"Add", "BiasGelu"} and product in node.input
        )
        constant = next(name for name in reader.input if name != product)
        return np.asarray(self._constants[constant], np.float32)

    def _table(self, quantised: str, name: str) -> Weights | None:
        """An embedding table (rows, width), in int8 with a scale for each row."""
        if (rows := self._constants.get(f"{quantised}_rows")) is not None:
            return np.asarray(rows * self._constants[f"{quantised}_scales"], np.float32)
        found = self._constants.get(name)
        return None if found is None else found.copy()

    def _matrix(self, node: "onnx.NodeProto") -> Weights:
        """The matrix (inputs, outputs) that a node multiplies its input by, also in int8."""
        match node.op_type:
            case "Mul":  # the integers that MatMulInteger gave, times both scales
                scale = self._producers[node.input[1]].input[1]
                node = self._producers[self._producers[node.input[0]].input[0]]
                matrix = self._dequantised(node.input[1], scale, node.input[3])
            case "QAttention":
                matrix = self._dequantised(node.input[1], node.input[4], node.input[7])
            case _:
                matrix = self._constants[node.input[1]].copy()
        return matrix * self._divisors(node.input[0])

    def _dequantised(self, name: str, scale: str, zero: str) -> Weights:
        values, offset = (self._constants[each].astype(np.float32) for each in (name, zero))
        return np.asarray((values - offset) * self._constants[scale], np.float32)

    def _divisors(self, name: str) -> Weights:
        """What export/graphs/outliers.py multiplies an input by, for each channel, (inputs, 1)."""
        node = self._producers.get(name)
        if node is not None and node.op_type == "DynamicQuantizeLinear":
            node = self._producers.get(node.input[0])
        if node is None or node.op_type != "Mul" or node.input[1] not in self._constants:
            return np.ones((1, 1), np.float32)
        return np.asarray(self._constants[node.input[1]].reshape(-1, 1), np.float32)


def _product(layer: str) -> str:
    """The output of a linear layer's product in the graph."""
    return f"/0/{layer.replace('.', '/').replace('layer/', 'layer.')}/MatMul_output_0"
