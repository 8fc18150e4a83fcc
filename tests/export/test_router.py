"""A Router of Sentence Transformers becomes two encoders of one space."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
)

import swiftlet
from swiftlet.manifest import read_manifest
from tests.command_line import refusal
from tests.command_line import swiftlet as command
from training.model.quiet import quiet

TEXTS = ["kalo mine", "puraso ti ka lomi", "raso", "nemi kalo 12, puti", "ka\n\nlo\tmi  ne\n"]


def saved(folder: Path, modules: list, **options) -> Path:
    with quiet():
        SentenceTransformer(modules=modules, device="cpu", **options).save(str(folder))
    return folder


@pytest.fixture(scope="module")
def router(checkpoints, tmp_path_factory) -> Path:
    """RoBERTa for queries and BERT for documents, with prompts."""
    query, document = (Transformer(str(checkpoints[name])) for name in ("roberta", "bert"))
    sides = Router.for_query_document(
        [query, Pooling(32, "max")], [document, Pooling(32, "cls"), Dense(32, 32)]
    )
    prompts = {"query": "kalo ", "document": "mine "}
    folder = tmp_path_factory.mktemp("router") / "model"
    return saved(folder, [sides, Normalize()], prompts=prompts)


def test_both_sides_give_the_embeddings_of_the_library_and_search_together(router, tmp_path):
    result = command("export", router, "--out", tmp_path / "pair", "--precision", "fp32")
    assert result.exit_code == 0, result.output
    expected = SentenceTransformer(str(router), device="cpu")
    found = {}
    for tower, role, encode in (
        ("query_encoder", "query", expected.encode_query),
        ("document_encoder", "passage", expected.encode_document),
    ):
        encoder = swiftlet.load_encoder(tmp_path / "pair" / tower).reading(role)
        found[role] = encoder.encode(TEXTS)
        stripped = [text.strip() for text in TEXTS]
        cosines = np.einsum("ij,ij->i", found[role], encode(stripped, show_progress_bar=False))
        assert cosines.min() > 0.9999
        assert encoder.manifest.details["role"] == role
        assert encoder.manifest.details["name"] == f"model-{tower.replace('_', '-')}"
    documents = [{"_id": f"{number}", "text": text} for number, text in enumerate(TEXTS)]
    swiftlet.build(
        documents, tmp_path / "index", encoder=tmp_path / "pair" / "document_encoder",
        truncate=True,
    )  # fmt: skip
    # The query encoder is beside that of the documents.
    with swiftlet.open(tmp_path / "index") as searcher:
        scores = {hit.document_id: hit.score for hit in searcher.search(TEXTS[0], mode="dense")}
    for number, score in enumerate(found["query"][0] @ found["passage"].T):
        assert scores[f"{number}"] == pytest.approx(score, abs=0.01)


def test_a_table_of_tokens_may_be_the_side_of_queries(checkpoints, tmp_path):
    document = Transformer(str(checkpoints["bert"]))
    table = StaticEmbedding(document.tokenizer.backend_tokenizer, embedding_dim=32)
    sides = Router.for_query_document([table], [document, Pooling(32, "mean")])
    folder = saved(tmp_path / "model", [sides, Normalize()])
    result = command("export", folder, "--out", tmp_path / "pair", "--precision", "fp32")
    assert result.exit_code == 0, result.output
    spaces = {
        read_manifest(tmp_path / "pair" / tower).embedding_space
        for tower in ("query_encoder", "document_encoder")
    }
    assert len(spaces) == 1


def test_what_is_refused_of_a_router(router, checkpoints, tmp_path):
    out = tmp_path / "pair"
    for option in (["--verify"], ["--pooling", "mean"]):
        sentence = refusal(command("export", router, "--out", out, *option))
        assert sentence == f"{router} is a Router of two encoders, which takes no {option[0]}: leave it out"  # fmt: skip # noqa: E501
    query, document = (Transformer(str(checkpoints["bert"])) for _ in range(2))
    sides = [query, Pooling(32, "mean"), Dense(32, 16)], [document, Pooling(32, "mean")]
    wide = saved(tmp_path / "wide", [Router.for_query_document(*sides)])
    sentence = refusal(command("export", wide, "--out", out))
    assert sentence.startswith(f"{wide} gives 16 numbers for a query, but 32 for a document: add a")
    one = [query, Pooling(32, "mean")]
    images = saved(
        tmp_path / "other", [Router({"one": one, "two": one}, default_route="one"), Normalize()]
    )
    sentence = refusal(command("export", images, "--out", out))
    assert "is a Router for one, two, but one for query and document is expected" in sentence
    (wide / "document_0_Transformer" / "model.safetensors").unlink()
    sentence = refusal(command("export", wide, "--out", out))
    assert sentence.startswith(f"{wide} cannot be loaded: ")
    assert not out.exists()
