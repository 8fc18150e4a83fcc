"""Tiny models with random weights, one of each kind, and their tokenizers."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import ByteLevelBPETokenizer

from training.model.quiet import quiet

SYLLABLES = ("ka", "lo", "mi", "ne", "pu", "ra", "so", "ti")
WORDS = ["".join(parts) for parts in itertools.product(SYLLABLES, repeat=2)]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:;'\"-()"

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def _wordpiece(folder: Path, special: tuple[str, ...]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    pieces = [*special, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return str(folder / "vocab.txt")


def _bert(folder: Path) -> tuple[object, object]:
    vocabulary = _wordpiece(folder, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    tokenizer = transformers.BertTokenizerFast(vocabulary, model_max_length=24)
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=40, **SIZES)
    return transformers.BertModel(config), tokenizer


def _distilbert(folder: Path) -> tuple[object, object]:
    vocabulary = _wordpiece(folder, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    tokenizer = transformers.DistilBertTokenizerFast(vocabulary, model_max_length=24)
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=40,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
    )
    return transformers.DistilBertModel(config), tokenizer


def _electra(folder: Path) -> tuple[object, object]:
    vocabulary = _wordpiece(folder, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    tokenizer = transformers.ElectraTokenizerFast(vocabulary, model_max_length=24)
    config = transformers.ElectraConfig(
        vocab_size=len(tokenizer), max_position_embeddings=40, embedding_size=16, **SIZES
    )
    return transformers.ElectraModel(config), tokenizer


def _mpnet(folder: Path) -> tuple[object, object]:
    vocabulary = _wordpiece(folder, ("<s>", "<pad>", "</s>", "[UNK]", "<mask>"))
    tokenizer = transformers.MPNetTokenizerFast(vocabulary, model_max_length=24)
    config = transformers.MPNetConfig(
        vocab_size=len(tokenizer), max_position_embeddings=42, pad_token_id=1, **SIZES
    )
    return transformers.MPNetModel(config), tokenizer


def _roberta(folder: Path) -> tuple[object, object]:
    folder.mkdir(parents=True, exist_ok=True)
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        [" ".join(WORDS)] * 3,
        vocab_size=400,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        show_progress=False,
    )
    trained.save_model(str(folder))
    tokenizer = transformers.RobertaTokenizerFast(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=24
    )
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=42, type_vocab_size=1, **SIZES
    )
    return transformers.RobertaModel(config), tokenizer


ARCHITECTURES: dict[str, Callable[[Path], tuple[object, object]]] = {
    "bert": _bert,
    "distilbert": _distilbert,
    "electra": _electra,
    "mpnet": _mpnet,
    "roberta": _roberta,
}


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    """Plain Hugging Face checkpoints, by architecture; read only."""
    folders = {}
    for name, make in ARCHITECTURES.items():
        folder = tmp_path_factory.mktemp("checkpoints") / name
        torch.manual_seed(7)
        model, tokenizer = make(folder)
        # Weights as small as random ones are at first would make every text alike.
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.mul_(4)
        with quiet():
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        folders[name] = folder
    return folders
