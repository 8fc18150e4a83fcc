"""A checkpoint is written completely or not at all, and an altered one is refused."""

import math

import numpy as np
import pytest
import torch

from swiftlet.errors import CorruptArtefactError, ManifestError, StorageError
from tests.small_disk import small_disk
from training.loop.checkpoints import read_checkpoint, write_checkpoint

__all__ = ["small_disk"]

STATE = {"model": {"weight": torch.arange(12.0)}, "step": 3}


def test_a_checkpoint_comes_back_and_replaces_the_one_before(tmp_path):
    place = tmp_path / "checkpoint"
    for step in (3, 4):
        write_checkpoint(place, STATE | {"step": step}, dim=4)
        found = read_checkpoint(place)
        assert found["step"] == step
        assert torch.equal(found["model"]["weight"], STATE["model"]["weight"])
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("file", ["state.safetensors", "state.json"])
def test_an_altered_shortened_or_missing_file_is_named(file, tmp_path):
    place = tmp_path / "checkpoint"
    write_checkpoint(place, STATE, dim=4)
    content = (place / file).read_bytes()
    altered = bytearray(content)
    altered[len(content) // 2] ^= 1
    (place / file).write_bytes(altered)
    with pytest.raises(CorruptArtefactError, match=f"{file} has been altered"):
        read_checkpoint(place)
    (place / file).write_bytes(content[:-1])
    with pytest.raises(CorruptArtefactError, match=f"{file} has {len(content) - 1} bytes"):
        read_checkpoint(place)
    (place / file).unlink()
    with pytest.raises(CorruptArtefactError, match=f"{file} is missing"):
        read_checkpoint(place)


def test_a_directory_that_is_missing_or_was_not_finished_is_none(tmp_path):
    place = tmp_path / "checkpoint"
    with pytest.raises(ManifestError, match="checkpoint is not a directory"):
        read_checkpoint(place)
    write_checkpoint(place, STATE, dim=4)
    (place / "manifest.json").unlink()
    with pytest.raises(ManifestError, match=r"has no manifest\.json"):
        read_checkpoint(place)


@pytest.mark.parametrize("large", ["tensor", "text"])
def test_a_full_disk_leaves_the_checkpoint_before_as_it_was(large, small_disk):
    place = small_disk / "checkpoint"
    write_checkpoint(place, STATE, dim=4)
    more = torch.ones(10**6) if large == "tensor" else "x" * 4 * 10**6
    with pytest.raises(StorageError, match=r"cannot write .*checkpoint: .*No space left"):
        write_checkpoint(place, {"model": more}, dim=4)
    assert read_checkpoint(place)["step"] == 3
    assert [entry.name for entry in small_disk.iterdir()] == ["checkpoint"]


def test_nested_tensors_arrays_numbers_and_keys_come_back(tmp_path):
    shared = torch.arange(6.0).reshape(2, 3)
    state = {
        "model": {"weight": shared, "same": shared},
        "optimiser": {"state": {0: {"step": torch.tensor(3.0)}, 7: {}}, "groups": [{"lr": 1e-5}]},
        "rows": np.array([3, 1, 2]),
        "nothing": None,
        "infinite": math.inf,
        "flag": True,
        "empty": np.empty(0, np.int64),
        "bytes": torch.tensor([1, 255], dtype=torch.uint8),
    }
    write_checkpoint(tmp_path / "checkpoint", state, dim=4)
    found = read_checkpoint(tmp_path / "checkpoint")
    assert torch.equal(found["model"]["weight"], shared)
    assert torch.equal(found["model"]["same"], shared)
    assert found["optimiser"]["state"][0]["step"] == 3
    assert found["optimiser"]["state"][7] == {}
    assert found["optimiser"]["groups"] == [{"lr": 1e-5}]
    np.testing.assert_array_equal(found["rows"], [3, 1, 2])
    assert found["rows"].dtype == np.int64
    assert found["empty"].shape == (0,)
    assert found["nothing"] is None
    assert found["infinite"] == math.inf
    assert found["flag"] is True
    assert found["bytes"].dtype == torch.uint8


def test_values_that_cannot_be_restored_are_refused(tmp_path):
    with pytest.raises(TypeError, match="set cannot be kept"):
        write_checkpoint(tmp_path / "checkpoint", {"something": {1, 2}}, dim=4)
