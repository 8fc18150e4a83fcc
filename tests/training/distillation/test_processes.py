"""A distillation in several processes gives the same result as in one."""

import json
from pathlib import Path

import pytest

from export.encoder_directory import export_encoder
from swiftlet.index.building.build import build
from tests.processes import side_by_side
from tests.runs import records

NUM_JUDGED = 12


@pytest.fixture(scope="session")
def on_index(teacher: Path, log: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options for a ranking loss and judged queries on an index of the teacher; read only."""
    folder = tmp_path_factory.mktemp("on-index")
    export_encoder(teacher, folder / "encoder", precisions=["fp32"])
    lines = log.read_text().splitlines()[:100]
    documents = [{"_id": f"d{number}", "text": line} for number, line in enumerate(lines)]
    options = {"passage_tokens": 20, "overlap_tokens": 0, "language": None}
    build(documents, folder / "index", encoder=folder / "encoder", **options)
    queries = [
        {"_id": f"q{number}", "text": lines[number].split()[0]} for number in range(NUM_JUDGED)
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    qrels = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(NUM_JUDGED))]
    (folder / "qrels.tsv").write_text("\n".join(qrels))
    judged = f'[{{queries = "{folder}/queries.jsonl", qrels = "{folder}/qrels.tsv"}}]'
    return ["--index", f"{folder / 'index'}", "--ranking", "1", "--set", f"judged={judged}"]


def distilled(teacher: Path, log: Path, out: Path, options: list[str], processes: int) -> Path:
    fixed = ["--queries", log, "--epochs", "2", "--batch-size", "5", "--set", "warmup_steps=0"]
    fixed += ["--set", "every=20", "--set", "validation=30", "--out", out / "run"]
    out.mkdir()
    started = side_by_side(processes, "distill", "--teacher", teacher, *fixed, *options, folder=out)
    assert [command.wait() for command in started] == [0] * processes, started[0].text
    assert "Next: swiftlet serve" in started[0].text
    assert all("swiftlet" not in other.text for other in started[1:])
    return out / "run"


@pytest.mark.parametrize(
    ("kind", "processes"),
    [
        ("projection", 2),
        ("on index", 2),
        ("re-ranked", 2),
        # Its terms are those of all kinds.
        pytest.param("re-ranked", 4, marks=pytest.mark.soak),
    ],
)
def test_several_processes_distil_as_one(
    kind: str,
    processes: int,
    checkpoints: dict[str, Path],
    teacher: Path,
    log: Path,
    on_index: list[str],
    reranker_directory: Path,
    tmp_path: Path,
) -> None:
    # Of a batch of five, each of four processes takes two texts, and the last none.
    student = ["--student", f"{checkpoints['electra']}", "--pooling", "mean"]
    options = student if kind == "projection" else ["--layers", "0", *on_index]
    if kind == "re-ranked":
        options += ["--set", f"ranking_teacher={reranker_directory}"]
    alone, together = (
        distilled(teacher, log, tmp_path / f"{count}", options, count) for count in (1, processes)
    )
    for one, other in zip(records(together), records(alone), strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            same = pytest.approx(value, rel=1e-5, abs=1e-5) if type(value) is float else value
            assert one[name] == same, (name, other)


def test_an_adaptation_in_several_processes_is_refused(on_index: list[str], tmp_path: Path) -> None:
    index = Path(on_index[1])
    encoder = index.parent / "encoder"
    options = ["--student", encoder, "--encoder", encoder, "--out", tmp_path / "adapted"]
    started = side_by_side(2, "adapt", index, *options, folder=tmp_path)
    assert [command.wait() for command in started] == [2, 2]
    refusal = "an adaptation runs in one process, not under torchrun"
    assert [command.refusal for command in started] == [refusal, refusal]
    assert not (tmp_path / "adapted").exists()
