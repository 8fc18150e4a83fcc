import numpy as np
import pytest

from swiftlet.encoders.encoding import encode_batches
from swiftlet.errors import StorageError
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.progress import Silence
from tests.number_encoder import Numbers, numbers


@pytest.fixture
def file(tmp_path) -> EmbeddingsFile:
    return EmbeddingsFile(tmp_path / "embeddings.f32", 3)


def complete(file: EmbeddingsFile, encoder: Numbers, count: int) -> None:
    texts = iter(numbers(count)[len(file) :])
    file.append(encode_batches(encoder, texts, 2), Silence(), "", count)


def test_an_interrupted_encoding_resumes_after_the_last_complete_embedding(file):
    assert len(file) == 0
    complete(file, Numbers(), 100)
    whole = file.path.read_bytes()
    assert len(whole) == 100 * 3 * 4
    for kept_bytes in (0, 5, 12, 600, 611, 1199, 1200):
        file.path.write_bytes(whole[:kept_bytes])
        kept = len(file)
        assert kept == kept_bytes // 12
        encoder = Numbers()
        complete(file, encoder, 100)
        assert file.path.read_bytes() == whole
        assert sorted(map(int, encoder.read)) == list(range(kept, 100))
    rows = file.rows()
    assert rows.shape == (100, 3)
    assert rows.dtype == np.float32
    assert rows[:, 1].tolist() == list(range(100))


def test_progress_starts_at_the_finished_steps_and_ends_at_the_total(file):
    told: list[tuple[object, ...]] = []

    class Listener:
        def begin(self, name: str, total: int | None, done: int = 0) -> None:
            told.append((name, total, done))

        def advance(self, steps: int) -> None:
            told.append((steps,))

        def note(self, text: str) -> None:
            told.append((text,))

    for count in (40, 100):
        remaining = numbers(count)[len(file) :]
        batches = encode_batches(Numbers(), remaining, 2)
        file.append(batches, Listener(), "Encoding passages", count)
    assert told == [
        ("Encoding passages", 40, 0),
        (32,),
        (8,),
        ("Encoding passages", 100, 40),
        (32,),
        (28,),
    ]


def test_embeddings_made_before_a_failure_are_kept(file):
    texts = [*numbers(200), "no number", *numbers(200)]
    with pytest.raises(ValueError, match="invalid literal"):
        file.append(encode_batches(Numbers(), texts, 2), Silence(), "", 401)
    assert file.rows()[:, 0].tolist() == list(range(192))


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    file = EmbeddingsFile(tmp_path / "none" / "embeddings.f32", 3)
    with pytest.raises(StorageError, match=r"^cannot write .*embeddings\.f32: No such file"):
        complete(file, Numbers(), 10)
