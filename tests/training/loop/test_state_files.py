"""A state is the same after writing and reading."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from training.loop.state_files import read_state, write_state


def test_nested_tensors_arrays_numbers_and_keys_come_back(tmp_path: Path) -> None:
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
    write_state(tmp_path, state)
    found = read_state(tmp_path)
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


def test_values_that_cannot_be_restored_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="set cannot be kept"):
        write_state(tmp_path, {"something": {1, 2}})
