"""The addresses of indexes on servers."""

import re
from pathlib import Path

import pytest

import swiftlet
from swiftlet.address import TOKEN_VARIABLE, parse_address
from swiftlet.arguments import path_of
from swiftlet.errors import IndexServerError, InvalidArgumentError
from swiftlet.servers.push import push


@pytest.mark.parametrize(
    "text",
    [
        "milvus://localhost:19530", "milvus://localhost/papers", "milvus://localhost:0x1/papers",
        "milvus://localhost:70000/papers", "milvus://localhost:1/2/3/4",
        "milvus://localhost:1/pa-pers", "milvus://user:secret@localhost:1/papers",
        "postgresql://localhost:5432/library", "postgresql://localhost/library/papers",
        "postgres://localhost:5432/library/papers", "postgresql://localhost:70000/library/papers",
        "postgresql://user:secret@localhost:5432/library/papers", f"postgresql://h:1/d/{'t' * 41}",
        "POSTGRESQL://h:1/d/papers", "postgresql+tls://h:1/d/papers",
        'postgresql://localhost:5432/library/pa"pers', "postgresql://localhost:5432/a/b/papers",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(text):
    is_milvus = text.startswith("milvus")
    form = "COLLECTION is expected" if is_milvus else "DATABASE/TABLE is expected"
    with pytest.raises(InvalidArgumentError, match=form) as refusal:
        swiftlet.open(text)
    assert ("SWIFTLET_INDEX_TOKEN" in f"{refusal.value}") is ("@" in text)
    assert "secret" not in f"{refusal.value}"


@pytest.mark.parametrize("token", ["root:caf\udce9", "root:Milvus\n"])
def test_a_token_that_is_no_line_of_text_is_named(token, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    with pytest.raises(InvalidArgumentError, match="SWIFTLET_INDEX_TOKEN has a character that ca"):
        swiftlet.open("milvus://localhost:19530/papers")


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("milvus://localhost:19530/papers", "milvus://localhost:19530"),
        ("milvus+tls://db.example.org:443/mine/papers", "milvus+tls://db.example.org:443"),
        ("milvus://[::1]:19530/papers", "milvus://[::1]:19530"),
        ("postgresql://db:5432/my-library/papers", "postgresql://db:5432"),
    ],
)
def test_an_address_is_shown_as_it_was_given(text, server):
    assert (f"{parse_address(text)}", parse_address(text).server) == (text, server)


@pytest.mark.parametrize("text", ["papers://h", "papers+tls://h/a"])
def test_an_unknown_address_is_shown_as_it_was_typed_though_a_path_was_made_of_it(text):
    with pytest.raises(InvalidArgumentError, match=rf"index is '{re.escape(text)}', but a path"):
        path_of("index", Path(text))


@pytest.mark.parametrize("text", ["milvus://127.0.0.1:9/small", "postgresql://127.0.0.1:9/a/small"])
def test_a_server_that_is_not_there_is_named(text, small_index):
    with pytest.raises(IndexServerError, match=r"127\.0\.0\.1:9 does not answer.*: check that it"):
        push(small_index, parse_address(text))
