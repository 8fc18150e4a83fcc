"""Each output of a frozen encoder is computed once and cached completely."""

import numpy as np
import pytest
import torch

from swiftlet.errors import StorageError
from tests.runs import ListedPassages
from tests.small_disk import small_disk
from training.loop.embedding_cache import EmbeddingCache
from training.objective.negatives.sampler import Rows

__all__ = ["small_disk"]

WIDTH = 5
PASSAGES = ListedPassages(["text"] * 8)


class Encoder:
    """Row r gives r in every dimension, plus what makes it another encoder; counts its work."""

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset
        self.asked: list[list[int]] = []

    def __call__(self, rows: Rows) -> torch.Tensor:
        self.asked.append(rows.tolist())
        return torch.from_numpy(rows).float()[:, None].expand(-1, WIDTH) + self.offset


def rows_of(*rows: int) -> Rows:
    return np.array(rows, dtype=np.int64)


def test_each_row_is_computed_once_and_returned_in_the_given_order(tmp_path):
    outputs, encoder = EmbeddingCache(tmp_path, "key", WIDTH), Encoder()
    first = outputs.get(PASSAGES, rows_of(5, 2, 5), encoder)
    assert first[:, 0].tolist() == [5, 2, 5]
    second = outputs.get(PASSAGES, rows_of(7, 2), encoder)
    assert second.tolist() == [[7.0] * WIDTH, [2.0] * WIDTH]
    assert encoder.asked == [[2, 5], [7]]
    assert outputs.get(PASSAGES, rows_of(7, 5), encoder)[:, 0].tolist() == [7, 5]
    assert len(encoder.asked) == 2


def test_another_process_finds_them(tmp_path):
    EmbeddingCache(tmp_path, "key", WIDTH).get(PASSAGES, rows_of(1, 6), Encoder())
    encoder = Encoder(offset=0.5)
    found = EmbeddingCache(tmp_path, "key", WIDTH).get(PASSAGES, rows_of(6, 3), encoder)
    assert found[:, 0].tolist() == [6, 3.5]
    assert encoder.asked == [[3]]


def test_other_weights_and_other_passages_have_outputs_of_their_own(tmp_path):
    outputs = EmbeddingCache(tmp_path, "key", WIDTH)
    outputs.get(PASSAGES, rows_of(1), Encoder())
    other = Encoder(offset=0.5)
    others = ListedPassages(["other"] * 8, key="others")
    assert outputs.get(others, rows_of(1), other)[0, 0] == 1.5
    assert EmbeddingCache(tmp_path, "new", WIDTH).get(PASSAGES, rows_of(1), other)[0, 0] == 1.5
    assert outputs.get(PASSAGES, rows_of(1), other)[0, 0] == 1


def test_a_row_with_a_failed_computation_is_not_cached(tmp_path):
    outputs = EmbeddingCache(tmp_path, "key", WIDTH)

    def fail(_rows: Rows) -> torch.Tensor:
        raise MemoryError

    with pytest.raises(MemoryError):
        outputs.get(PASSAGES, rows_of(4), fail)
    assert outputs.get(PASSAGES, rows_of(4), Encoder())[0, 0] == 4


def test_files_take_disk_space_for_cached_rows_only(tmp_path):
    passages = ListedPassages([""] * 100_000)
    EmbeddingCache(tmp_path, "key", 1000).get(
        passages, rows_of(99_999), lambda rows: torch.ones(len(rows), 1000)
    )
    sizes = [file.stat() for file in tmp_path.iterdir()]
    assert max(size.st_size for size in sizes) == 4 * 1000 * 100_000
    assert sum(size.st_blocks * 512 for size in sizes) < 1_000_000


def test_a_full_disk_is_reported_in_one_sentence(small_disk):
    passages = ListedPassages([""] * 4000)
    outputs = EmbeddingCache(small_disk, "key", 1000)

    def compute(rows: Rows) -> torch.Tensor:
        return torch.ones(len(rows), 1000)

    outputs.get(passages, rows_of(0, 1), compute)
    with pytest.raises(StorageError, match=r"cannot write .*\.outputs: No space left on device"):
        outputs.get(passages, np.arange(4000), compute)
    assert outputs.get(passages, rows_of(1), compute).sum() == 1000
