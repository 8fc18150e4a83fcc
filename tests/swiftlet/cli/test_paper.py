"""The commands of docs/training.md for the tables of 001, with a made-up MS MARCO."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import ir_datasets
import pytest

from tests.command_line import swiftlet

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[3]
SECTION = (ROOT / "docs" / "training.md").read_text("utf-8").split("### The tables of 001")[1]
COMMANDS = [shlex.split(line)[1:] for line in SECTION.split("```")[1].splitlines()[1:]]
TINY = {
    "passages.tokens": 16, "passages.overlap_tokens": 0, "document_encoder.max_tokens": 16,
    "dual_encoder.dim": 16, "validation.queries": 12, "negatives.per_query": 4,
    "negatives.cache_fraction": 0.5, "optimiser.batch_size": 8, "optimiser.precision": '"fp32"',
    "alignment.max_steps": 4, "fine_tuning.max_steps": 4, "collapse.stop": "false",
}  # fmt: skip


@pytest.fixture
def marco(collection, tmp_path) -> Iterator[None]:
    """ir_datasets as they would be with little in them; a query has a graded document by chance."""
    registered = ir_datasets.registry._registered
    before = dict(registered)
    documents, queries = (
        [json.loads(line) for line in (collection / f"{name}.jsonl").read_text().splitlines()]
        for name in ("corpus", "queries")
    )

    def register(name: str, chosen: slice) -> None:
        folder = tmp_path / "data" / name.replace("/", "-")
        folder.mkdir(parents=True)
        paths = {each: folder / each for each in ("docs_tsv", "queries_tsv", "qrels_trec")}
        lines = {
            "docs_tsv": [f"{each['_id']}\t{each['text']}" for each in documents],
            "queries_tsv": [f"{each['_id']}\t{each['text']}" for each in queries[chosen]],
            "qrels_trec": [
                f"{each['_id']} 0 {document} {grade}"
                for each in queries[chosen]
                for document, grade in ((f"d{each['_id'][1:]}", 2), ("d0", 1))
                if (document, grade) != ("d0", 1) or (each["_id"] != "q0" and "dl" in name)
            ],
        }
        for each, path in paths.items():
            path.write_text("".join(f"{line}\n" for line in lines[each]))
        registered.pop(name, None)
        ir_datasets.registry.register(name, ir_datasets.create_dataset(**paths))

    for kind in ("passage", "document"):
        register(f"msmarco-{kind}", slice(0))
        register(f"msmarco-{kind}/train", slice(0, 28))
        register(f"msmarco-{kind}/dev/small", slice(28, None))
        register(f"msmarco-{kind}/trec-dl-2019/judged", slice(28, None))
    yield
    registered.clear()
    registered.update(before)


def test_the_tables_of_001_come_from_the_commands_of_the_docs(
    marco, checkpoints, tmp_path, monkeypatch
):
    towers = {f"{name}_encoder.model": f'"{checkpoints["bert"]}"' for name in ("query", "document")}
    smaller = {
        "train": [f"--set={name}={value}" for name, value in (TINY | towers).items()],
        "index": ["--passage-tokens=16", "--overlap-tokens=0"],
    }
    monkeypatch.chdir(tmp_path)
    (tmp_path / "training").symlink_to(ROOT / "training")
    for command in COMMANDS:
        result = swiftlet(*command, *smaller.get(command[0], ()))
        assert result.exit_code == 0, result.output
        if command[0] == "table":
            rows = result.stdout.splitlines()[4:6]
            assert all(re.fullmatch(r"\{\[.\]\} & (bm25|daft) (& \S+ ){3}\\\\", r) for r in rows)
    assert {each[0] for each in COMMANDS} == {"train", "index", "evaluate", "table"}
