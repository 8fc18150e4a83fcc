"""The log of a run is read as it was written, or refused with the line."""

import json
import math
from pathlib import Path

import pytest

from swiftlet.errors import CollectionError
from training.logged_run import LogRecord, read_training_log

RECORDS = [
    {"kind": "evaluation", "stage": "alignment", "step": 0, "epoch": 0.0, "kl": 9, "loss": None},
    {
        "kind": "step",
        "stage": "alignment",
        "step": 10,
        "epoch": 0.5,
        "loss": 4.0,
        "learning_rate": 1,
    },
    {"kind": "step", "stage": "alignment", "step": 20, "epoch": 1.0, "loss": 3.0, "new": ["x"]},
    {"kind": "evaluation", "stage": "alignment", "step": 20, "epoch": 1.0, "kl": 5.5, "loss": 3.5},
    {"kind": "stop", "stage": "alignment", "step": 20, "epoch": 1.0, "reason": "aligned"},
    {"kind": "evaluation", "stage": "fine-tuning", "step": 0, "epoch": 0.0, "kl": 5.5},
    {"kind": "step", "stage": "fine-tuning", "step": 10, "epoch": 0.5, "loss": None},
    {"kind": "step", "stage": "fine-tuning", "step": 15, "epoch": 0.75, "loss": 2.0},
    {"kind": "end", "seconds": 12.5},
]


def written(folder: Path, lines: list[str]) -> Path:
    path = folder / "metrics.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_all_keys_of_all_kinds_are_kept(tmp_path):
    run = read_training_log(written(tmp_path, list(map(json.dumps, RECORDS))))
    assert len(run.records) == len(RECORDS)
    assert run.records[2] == LogRecord(
        "step", "alignment", 20, {"epoch": 1.0, "loss": 3.0, "new": ["x"]}
    )
    assert run.of_kind("stop")[0].values["reason"] == "aligned"
    assert run.records[-1] == LogRecord("end", "", 0, {"seconds": 12.5})


def test_a_constant_that_json_does_not_have_is_read_as_pythons_writer_means_it(tmp_path):
    path = written(tmp_path, ['{"kind": "step", "stage": "s", "step": 1, "loss": NaN}'])
    (record,) = read_training_log(path).of_kind("step")
    assert math.isnan(record.values["loss"])


@pytest.mark.parametrize("line", ['{"kind": "step", "st', "[1]", "7", '{"stage": "s", "step": 1}'])
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    path = written(tmp_path, [json.dumps(RECORDS[0]), line])
    with pytest.raises(CollectionError, match=r"metrics.jsonl, line 2: it is no record of a train"):
        read_training_log(path)


def test_a_log_that_is_missing_or_empty_is_refused(tmp_path):
    with pytest.raises(CollectionError, match="cannot be read"):
        read_training_log(tmp_path / "metrics.jsonl")
    with pytest.raises(CollectionError, match="the file is empty"):
        read_training_log(written(tmp_path, []))
