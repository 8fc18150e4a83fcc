"""Leaves out the tokens that no text of the user has."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from export.source import Source
from swiftlet.corpora.collections import read_documents, read_queries
from swiftlet.corpora.files.text import TEXT_SUFFIXES
from swiftlet.corpora.irds import is_dataset
from swiftlet.errors import CollectionError
from swiftlet.index.documents.passages import encoder_text
from swiftlet.types import Embeddings
from training.model.errors import ModelError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_MOST_TEXTS = 200_000
_TEXTS_AT_ONCE, _COMPARED, _LEAST_COSINE = 1000, 8, 0.9999
_CONTINUES = "##"  # the beginning of a word piece inside a word
_SPACE = "\u2581"


def first_texts(path: Path) -> list[str]:
    """At most 200,000 texts of `path`.

    It has queries, in any form that `read_queries` reads, or else a corpus, in any form that
    `read_documents` reads. In a BEIR folder, the queries are taken.

    :raises CollectionError: When `path` has neither, or one of the lines that are read is bad.
    """
    readers: list[Callable[[Path], Iterable[str]]] = [_documents, _queries]
    # Most files of queries can also be read as documents, which are not all kept in memory.
    if path.is_dir() or is_dataset(path) or path.suffix.lower() in TEXT_SUFFIXES:
        readers.reverse()
    refusals = []
    for read in readers:
        try:
            return list(islice(read(path), _MOST_TEXTS))
        except CollectionError as error:
            refusals.append(error)
    # The reader that accepted more lines probably fits the format of the file.
    raise max(refusals, key=lambda error: error.line_number or 0)


def _documents(path: Path) -> Iterable[str]:
    return (encoder_text(document.title, document.text) for document in read_documents(path))


def _queries(path: Path) -> Iterable[str]:
    return (query.text for query in read_queries(path))


def with_vocabulary_of(source: Source, texts: Sequence[str]) -> Source:
    """The encoder with the tokens of `texts`, special tokens, and tokens of one character.

    Texts of other tokens get shorter ones. The model of `source` is changed.

    :raises ModelError: When its tokenizer is of another kind than Unigram and WordPiece.
    """
    content = json.loads(source.tokenizer_json)
    if content["model"]["type"] not in ("Unigram", "WordPiece"):
        raise ModelError(
            f"the tokenizer of {source.name} is of the kind {content['model']['type']}; tokens "
            "can be left out of Unigram and WordPiece: leave --vocabulary out"
        )
    pieces = _pieces(content["model"])
    kept = _used(source, texts) | {token["id"] for token in content["added_tokens"]}
    kept |= {number for piece, number in pieces.items() if _is_short(piece)}
    _renumber(content, {old: new for new, old in enumerate(sorted(kept))})
    compared = texts[:_COMPARED]
    before = _embeddings(source, compared)
    _keep_rows(source.model, sorted(kept), json.dumps(content))
    if ((_embeddings(source, compared) * before).sum(axis=1) < _LEAST_COSINE).any():
        raise ModelError(
            f"{source.name} depends on the numbers of its tokens: leave --vocabulary out"
        )
    return replace(source, tokenizer_json=json.dumps(content))


def _embeddings(source: Source, texts: Sequence[str]) -> Embeddings:
    found: Embeddings = source.model.encode([*texts], show_progress_bar=False)
    return found


def _pieces(model: dict[str, Any]) -> dict[str, int]:
    """The number of each piece."""
    if model["type"] == "WordPiece":
        return dict(model["vocab"])
    return {piece: number for number, (piece, _) in enumerate(model["vocab"])}


def _used(source: Source, texts: Sequence[str]) -> set[int]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(source.tokenizer_json)
    tokenizer.no_truncation()
    found: set[int] = set()
    remaining = iter((*source.prompts.values(), *texts))
    while batch := list(islice(remaining, _TEXTS_AT_ONCE)):
        for encoding in tokenizer.encode_batch_fast(batch):
            found.update(encoding.ids)
    return found


def _is_short(piece: str) -> bool:
    return len(piece.removeprefix(_CONTINUES).removeprefix(_SPACE)) <= 1


def _renumber(content: dict[str, Any], numbers: dict[int, int]) -> None:
    """Give the tokens of a tokenizer other numbers, and leave out those without one."""
    model = content["model"]
    if model["type"] == "WordPiece":
        old = sorted(model["vocab"].items(), key=lambda item: item[1])
        model["vocab"] = {piece: numbers[each] for piece, each in old if each in numbers}
    else:
        model["vocab"] = [item for each, item in enumerate(model["vocab"]) if each in numbers]
        model["unk_id"] = numbers[model["unk_id"]]
    for token in content["added_tokens"]:
        token["id"] = numbers[token["id"]]
    processor = content["post_processor"]
    if processor is None:
        return
    for name in ("sep", "cls"):  # of BertProcessing and RobertaProcessing
        if name in processor:
            processor[name][1] = numbers[processor[name][1]]
    for token in processor.get("special_tokens", {}).values():  # of TemplateProcessing
        token["ids"] = [numbers[each] for each in token["ids"]]


def _keep_rows(encoder: "SentenceTransformer", kept: list[int], tokenizer_json: str) -> None:
    """Leave out the embeddings of other tokens."""
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer.from_str(tokenizer_json)
    if hasattr(encoder[0], "embedding"):  # a look-up encoder
        table = encoder[0].embedding
        table.weight = torch.nn.Parameter(table.weight[kept])
        table.num_embeddings = len(kept)
        encoder[0].tokenizer = tokenizer
        return
    model, before = encoder[0].auto_model, encoder[0].tokenizer
    weight = model.get_input_embeddings().weight[kept]
    model.set_input_embeddings(torch.nn.Embedding(len(weight), weight.shape[1], _weight=weight))
    model.config.vocab_size = len(kept)
    encoder[0].processor = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=before.model_max_length,
        model_input_names=before.model_input_names,
        **before.special_tokens_map,
    )
