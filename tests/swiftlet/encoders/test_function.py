import sys
import threading
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import swiftlet
from swiftlet.deadline import due_at
from swiftlet.encoders.opening import encoder_place, open_encoder
from swiftlet.errors import (
    ArtefactError,
    EncoderError,
    EncoderTimeoutError,
    InvalidArgumentError,
)

MODULE = """
from swiftlet.encoders.encoder import load_encoder

encoder = load_encoder()

def embed(texts):
    return encoder.encode(texts)

class Model:
    embed = staticmethod(embed)

number = 3
"""


def letters(texts: list[str]) -> list[list[float]]:
    """How often each letter is in a text."""
    return [[1.0 + text.lower().count(chr(97 + n)) for n in range(26)] for text in texts]


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    """A module in the working directory."""
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


@pytest.mark.parametrize("kind", [list, np.float64, np.float32, np.float16, tuple])
def test_a_function_may_return_lists_or_any_floats(kind):
    def embed(texts: list[str]) -> Any:
        found = letters(texts)
        return kind(found) if kind in {list, tuple} else np.array(found, kind)

    found = open_encoder(embed, "query").encode(["bees", "honey"])
    expected = np.array(letters(["bees", "honey"]))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("embed", "sentence"),
    [
        (lambda texts: None, "that are None, but 3 rows of equally many numbers are expected"),
        (lambda texts: np.ones((1, 4)), r"of shape \(1, 4\), but 3 rows of 4 numbers are expected"),
        (
            lambda texts: np.ones(4),
            r"of shape \(4,\), but 3 rows of equally many numbers are expected",
        ),
        (lambda texts: np.ones((3, 4, 2)), r"of shape \(3, 4, 2\), but 3 rows of equally many"),
        (lambda texts: np.empty((3, 0)), r"but 3 rows of equally many numbers are expected"),
        (
            lambda texts: [[1.0], [1.0, 2.0], [3.0]],
            r"but 3 rows of equally many numbers are expected",
        ),
        (lambda texts: [["a"], ["b"], ["c"]], r"but 3 rows of equally many numbers are expected"),
        (lambda texts: np.zeros((3, 4)), "is zero, for the text 'swiftlet'"),
        (lambda texts: np.full((3, 4), np.nan), "is not finite, for the text 'swiftlet'"),
        (lambda texts: 1 / 0, "has failed: ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_gives_no_embeddings_is_refused(embed, sentence):
    with pytest.raises(EncoderError, match=sentence):
        open_encoder(embed, "query")


def test_a_function_that_gives_another_width_later_is_refused():
    encoder = open_encoder(lambda texts: np.ones((len(texts), 4 + (len(texts) == 2))), "query")
    with pytest.raises(
        EncoderError, match=r"of shape \(2, 5\), but 2 rows of 4 numbers are expected"
    ):
        encoder.encode(["bees", "honey"])
    with pytest.raises(InvalidArgumentError, match="a list of texts is expected"):
        encoder.encode("bees")
    with pytest.raises(InvalidArgumentError, match="reads texts"):
        encoder.embed([1, 2])


def test_a_function_is_named_by_its_module(module, shipped_encoder):
    for name in (f"{module}:embed", f"{module}:Model.embed"):
        encoder = open_encoder(name, "query")
        cosine = encoder.encode(["bees"])[0] @ shipped_encoder.encode(["bees"])[0]
        assert cosine == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_such_module:embed", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("{}:none", "AttributeError: .*'none'"),
        ("{}:number", "is no function of texts"),
        ("{}:Model", "has failed: TypeError"),
    ],
)
def test_a_name_that_leads_to_no_function_is_one_sentence(module, name, sentence):
    with pytest.raises((InvalidArgumentError, EncoderError), match=sentence):
        open_encoder(name.format(module), "query")


def test_a_path_with_a_colon_stays_a_path(tmp_path, monkeypatch):
    (tmp_path / "a:b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert encoder_place("a:b") == Path("a:b")


def test_a_precision_is_for_exported_encoders():
    with pytest.raises(InvalidArgumentError, match=r"precision is int8, but the encoder .*letters"):
        open_encoder(letters, "query", precision="int8")


def test_one_thread_at_a_time_calls_a_function_and_searches_do_not_wait_for_ever():
    calls, end = threading.Semaphore(0), threading.Event()

    def embed(texts: list[str]) -> Any:
        if texts == ["slow"]:
            calls.release()
            end.wait(100)
        return letters(texts)

    encoder = open_encoder(embed, "query")
    thread = threading.Thread(target=encoder.encode, args=[["slow"]])
    thread.start()
    calls.acquire()
    try:
        with pytest.raises(EncoderTimeoutError, match="busy"), due_at(perf_counter() + 0.2):
            encoder.encode(["bees"])
    finally:
        end.set()
        thread.join()
    assert encoder.encode(["bees"]).shape == (1, 26)


def test_an_index_of_a_function_runs_it_only_when_it_is_named(small_documents, tmp_path):
    index = tmp_path / "index"
    swiftlet.build(small_documents[::5], index, encoder=letters)
    with pytest.raises(ArtefactError, match=r"test_function:letters, which only runs when you na"):
        swiftlet.open(index)
    with swiftlet.open(index, encoder=letters) as searcher:
        document = searcher.document("bees-1")
        query = f"{document.title} {document.text}"
        assert searcher.search(query, mode="dense").hits[0].document_id == "bees-1"
    # The same function by another name is the same encoder.
    with swiftlet.write(index, encoder=partial(letters)) as writer:
        writer.put([{"id": "new", "text": "zzz zzz zzz"}])
        assert writer.compact()
    with swiftlet.open(index, encoder=letters) as searcher:
        assert searcher.search("zzzz", mode="dense").hits[0].document_id == "new"
