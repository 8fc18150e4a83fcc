"""Model families, each exported, indexed and searched, and compared with Sentence Transformers.

    python -m benchmarks.first_hour_models --work WORK

Needs the extra `export`. The weights are random, but for BERT, which is that of the encoders that
ship; the architectures, tokenizers, prompts and poolings are real. It takes five minutes.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

import swiftlet
from export.encoder_directory import export_encoder
from export.router import export_router, is_router
from loadtests.command_line import script_options
from loadtests.results import RESULTS, Figures, bound, write_section
from swiftlet.demo import read_standard_library
from swiftlet.encoders import torch_weights
from swiftlet.encoders.encoder import OnnxEncoder, Precision, Role
from swiftlet.evaluation.machine import describe_machine
from swiftlet.types import Embeddings
from training.model.quiet import quiet

HEADING, TITLE = "Any model", "The first hour"
LEAST_COSINE, DIM, TEXTS, QUERIES = 0.9999, 48, 300, 60
SIZES = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128,
}  # fmt: skip
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENS = 64
BGE = "Represent this sentence for searching relevant passages:"
Texts = list[str]


def main() -> None:
    options = script_options(__doc__, work=Path, raw=RESULTS / "first-hour.json")
    options.work.mkdir(parents=True, exist_ok=True)
    texts = passages()
    rows = []
    for name, weights, folder, dim in families(options.work, texts):
        rows.append(
            {"name": name, "weights": weights, **measure(options.work, name, folder, dim, texts)}
        )
        print(rows[-1], flush=True)
    least = min(row["cosine"] for row in rows)
    figures = {
        "template": "benchmarks/first_hour_models.md.j2",
        "machine": describe_machine(
            ["torch", "transformers", "sentence-transformers", "optimum-onnx", "onnxruntime"],
            threads="all cores",
        ),
        "texts": len(texts),
        "queries": QUERIES,
        "rows": rows,
        "bounds": [
            bound(
                "smallest cosine between fp32 and torch",
                f"{least:.6f}",
                f"at least {LEAST_COSINE}",
                kept=least >= LEAST_COSINE,
            )
        ],
    }
    print(write_section(options.raw, TITLE, HEADING, figures))


def passages() -> Texts:
    """Docstrings of Python's standard library."""
    found = (
        document.text[start:end].strip()
        for document in read_standard_library()
        for start, end, _ in document.sections
    )
    long_enough = [text for text in found if len(text.split()) > 12]
    return long_enough[:: max(1, len(long_enough) // TEXTS)][:TEXTS]


def families(work: Path, texts: Texts) -> Iterator[tuple[str, str, Path, int | None]]:
    """The name of each family, its weights, its folder, and the dimensions that are kept."""
    pieces = word_pieces(texts)
    random: dict[str, tuple[Any, Any, Any]] = {
        "DistilBERT": (transformers.DistilBertModel, transformers.DistilBertConfig, pieces),
        "ELECTRA": (transformers.ElectraModel, transformers.ElectraConfig, pieces),
        "MPNet": (transformers.MPNetModel, transformers.MPNetConfig, pieces),
        "RoBERTa": (transformers.RobertaModel, transformers.RobertaConfig, bytes_of(texts)),
        "XLM-R": (transformers.XLMRobertaModel, transformers.XLMRobertaConfig, unigrams(texts)),
        "ModernBERT": (
            transformers.ModernBertModel,
            transformers.ModernBertConfig,
            bytes_of(texts),
        ),
    }
    yield "BERT", "real", torch_weights(), None
    for name, parts in random.items():
        checkpoint = make(work / "checkpoints" / name, *parts)
        yield name, "random", saved(work / name, checkpoint), None
    bert = torch_weights()
    prompts = {
        "E5's prompts": ("mean", {"query": "query: ", "document": "passage: "}),
        "BGE's prompt": ("cls", {"query": f"{BGE} "}),
        "Nomic's prompts": ("mean", {"query": "search_query: ", "document": "search_document: "}),
    }  # fmt: skip
    for name, (pooling, texts_before) in prompts.items():
        yield name, "real", saved(work / name, bert, pooling, prompts=texts_before), None
    yield f"Matryoshka, {DIM} of 384", "real", bert, DIM
    for pooling in ("max", "weightedmean", "lasttoken"):
        yield f"pooling {pooling}", "real", saved(work / pooling, bert, pooling), None
    sides = (modules.Transformer(str(each)) for each in (work / "checkpoints" / "XLM-R", bert))
    query, document = (
        [side, modules.Pooling(side.get_embedding_dimension(), "mean")] for side in sides
    )
    query.append(modules.Dense(SIZES["hidden_size"], 384))
    yield (
        "Router of XLM-R and BERT",
        "both",
        saved_modules(
            work / "router",
            [modules.Router.for_query_document(query, document), modules.Normalize()],
        ),
        None,
    )


def make(folder: Path, kind: Any, configuration: Any, tokenizer: Tokenizer) -> Path:
    """A checkpoint with random weights."""
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="<s>", sep_token="</s>", pad_token="<pad>",
        unk_token="<unk>", mask_token="<mask>", bos_token="<s>", eos_token="</s>",
        model_max_length=TOKENS, model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    names = {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 128}
    sizes = names if kind is transformers.DistilBertModel else SIZES
    settings = {"vocab_size": len(fast), "max_position_embeddings": 2 * TOKENS, "pad_token_id": 1}
    torch.manual_seed(1)
    with quiet():
        kind(configuration(**settings, **sizes)).save_pretrained(folder)
        fast.save_pretrained(folder)
    return folder


def saved(folder: Path, checkpoint: Path, pooling: str = "mean", **options: Any) -> Path:
    transformer = modules.Transformer(str(checkpoint), max_seq_length=TOKENS)
    width = transformer.get_embedding_dimension()
    parts = [transformer, modules.Pooling(width, pooling), modules.Normalize()]
    return saved_modules(folder, parts, **options)


def saved_modules(folder: Path, parts: list[Any], **options: Any) -> Path:
    with quiet():
        SentenceTransformer(modules=parts, device="cpu", **options).save(str(folder))
    return folder


def trained(model: Any, trainer: Any, before: Any, texts: Texts) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = before
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(each, tokenizer.token_to_id(each)) for each in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=ends)
    return tokenizer


def word_pieces(texts: Texts) -> Tokenizer:
    trainer = trainers.WordPieceTrainer(
        vocab_size=2000, special_tokens=SPECIAL, show_progress=False
    )
    return trained(
        models.WordPiece(unk_token="<unk>"), trainer, pre_tokenizers.BertPreTokenizer(), texts
    )


def bytes_of(texts: Texts) -> Tokenizer:
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=SPECIAL, show_progress=False)
    return trained(models.BPE(), trainer, pre_tokenizers.ByteLevel(), texts)


def unigrams(texts: Texts) -> Tokenizer:
    trainer = trainers.UnigramTrainer(
        vocab_size=2000, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    return trained(models.Unigram(), trainer, pre_tokenizers.Metaspace(), texts)


def measure(work: Path, name: str, folder: Path, dim: int | None, texts: Texts) -> Figures:
    """The smallest cosines with torch, and how often the first document is the same."""
    queries = [" ".join(text.split()[:8]) for text in texts[:QUERIES]]
    read_by: dict[Role, Texts] = {"query": queries, "passage": texts}
    with quiet():
        model = SentenceTransformer(str(folder), device="cpu", truncate_dim=dim)
        encode: dict[Role, Callable[..., Any]] = {
            "query": model.encode_query, "passage": model.encode_document
        }  # fmt: skip
        expected = {
            role: unit(encode[role](read, show_progress_bar=False))
            for role, read in read_by.items()
        }
    exported = work / f"{name} exported"
    precisions: list[Precision] = ["fp32", "int8"]
    options: dict[str, Any] = {"dim": dim, "precisions": precisions, "overwrite": True}
    if is_router(folder):
        export_router(folder, exported, progress=lambda _: None, **options)
        places = {"query": exported / "query_encoder", "passage": exported / "document_encoder"}
    else:
        export_encoder(folder, exported, **options)
        places = dict.fromkeys(("query", "passage"), exported)
    cosines = {}
    for precision in precisions:
        found = {
            role: OnnxEncoder.load(places[role], precision=precision, role=role).encode(read)
            for role, read in read_by.items()
        }
        both = [np.einsum("ij,ij->i", found[role], expected[role]).min() for role in found]
        cosines[precision] = float(min(both))
    documents = [{"_id": f"{number}", "text": text} for number, text in enumerate(texts)]
    index = work / f"{name} index"
    built: dict[str, Any] = {
        "truncate": True,
        "overwrite": True,
        "precision": "fp32",
        "language": None,
    }
    swiftlet.build(documents, index, encoder=places["passage"], **built)
    first = np.argmax(expected["query"] @ expected["passage"].T, axis=1)
    with swiftlet.open(index, encoder=places["query"], precision="fp32") as searcher:
        same = [
            searcher.search(query, 1)[0].document_id == f"{number}"
            for query, number in zip(read_by["query"], first, strict=True)
        ]
    return {"cosine": cosines["fp32"], "int8": cosines["int8"], "same": fmean(same)}


def unit(embeddings: Any) -> Embeddings:
    found = np.asarray(embeddings, np.float32)
    normalised: Embeddings = found / np.linalg.norm(found, axis=1, keepdims=True)
    return normalised


if __name__ == "__main__":
    main()
