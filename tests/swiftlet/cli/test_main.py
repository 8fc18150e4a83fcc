"""The command line as users run it."""

import ast
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from swiftlet.cli.main import app
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.index.updates.directory_writer import write
from swiftlet.manifest import FILE_NAME, read_manifest
from tests.command_line import refusal, swiftlet

pytest_plugins = ["tests.small_disk"]

DOCUMENTS = [
    {"_id": "tea", "title": "Tea", "text": "Leaves are steeped in hot water for some minutes.",
     "metadata": {"kind": "drink"}},
    {"_id": "ski", "title": "Skiing", "text": "One slides down snowy slopes on two long boards.",
     "metadata": {"kind": "sport", "year": 1924}},
    {"_id": "tax", "title": "Taxes", "text": "Citizens pay a part of their income to the state."},
]  # fmt: skip


def write_corpus(path: Path, *extra_lines: str) -> Path:
    lines = [json.dumps(document) for document in DOCUMENTS] + list(extra_lines)
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.fixture
def corpus(tmp_path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl")


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    corpus = write_corpus(folder / "corpus.jsonl")
    assert swiftlet("index", corpus, "--out", folder / "index").exit_code == 0
    return folder / "index"


def test_the_entry_point_says_that_it_was_interrupted_before_it_imports_much():
    program = (
        "import sys; seen = {*sys.modules}; import swiftlet.__main__; print({*sys.modules} - seen)"
    )
    imported = ast.literal_eval(subprocess.check_output([sys.executable, "-c", program], text=True))
    assert "swiftlet.__main__" in imported
    assert not {"typing", "re", "typer", "rich"} & imported


def test_a_width_that_no_terminal_has_is_left_out():
    command = [sys.executable, "-m", "swiftlet", "--help"]
    environment = {**os.environ, "COLUMNS": "9" * 30}
    assert "search" in subprocess.check_output(command, env=environment, text=True)


def test_the_version_is_printed():
    result = swiftlet("--version")
    assert (result.exit_code, result.stdout) == (0, f"swiftlet {version('swiftlet-retrieval')}\n")
    assert "Search by meaning and by words on ordinary CPUs." in swiftlet("--help").stdout


def test_the_help_of_search_shows_a_filter_that_needs_no_json():
    assert "'modified>=2026-01-01 and kind=pdf', or JSON" in " ".join(
        swiftlet("search", "--help").stdout.replace("│", " ").split()
    )


def test_the_help_loads_neither_numpy_nor_torch():
    code = """
import sys
from swiftlet.cli.main import app
assert not {"numpy", "faiss", "onnxruntime", "pydantic", "torch"} & set(sys.modules), sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_search_prints_hits_with_their_passages_and_stage_times(index):
    result = swiftlet("search", index, "a hot drink", "--top-k", "2")
    assert result.exit_code == 0
    assert re.match(r"\s+1\s+0\.\d{4}\s+tea\s+Tea\n\s+Leaves are steeped", result.stdout)
    assert re.search(r"ms: filter \d", result.stdout)


def test_a_search_reads_the_embedding_of_a_file(index, tmp_path):
    numbers = [1.0] * 384
    np.save(tmp_path / "query.npy", np.array([numbers], np.float32))
    (tmp_path / "query.json").write_text(json.dumps(numbers))
    by_array, by_list = (
        swiftlet("search", index, "--embedding", tmp_path / f"query.{kind}", "--top-k", "2")
        for kind in ("npy", "json")
    )
    assert by_array.exit_code == by_list.exit_code == 0
    assert by_array.stdout.splitlines()[:4] == by_list.stdout.splitlines()[:4] != []
    (tmp_path / "short.json").write_text("[1, 2]")
    refused = refusal(swiftlet("search", index, "--embedding", tmp_path / "short.json"))
    assert "embedding has 2 numbers, but those of the index have 384" in refused
    refused = refusal(swiftlet("search", index, "--embedding", tmp_path / "none.npy"))
    assert "none.npy is neither a .npy file nor a list of numbers in JSON" in refused


def test_search_finds_a_document_with_an_id_that_looks_like_markup(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "[/red]", "title": "[bold]", "text": "a cup of [dim]tea"}\n')
    assert swiftlet("index", corpus, "--out", tmp_path / "index").exit_code == 0
    result = swiftlet("search", tmp_path / "index", "tea")
    assert "[/red]" in result.stdout
    assert "[dim]tea" in result.stdout


def test_a_search_with_a_filter_finds_the_documents_that_pass_it(index):
    for chosen in ('{"year": {"lt": 2000}}', "year<2000", "year < 2000 and kind!='x' and year!=1"):
        found = swiftlet("search", index, "a hot drink", "--filter", chosen)
        assert re.findall(r"0\.\d{4}\s+(\w+)", found.stdout) == ["ski"]
    for chosen, complaint in (
        *(
            (wrong, f"--filter is '{wrong}', but 'modified>=2026-01-01 and kind=pdf' is expected")
            for wrong in ("year", "kind==x", "kind=x or kind=y")
        ),
        *((f'{{"year": {number}}}', "or JSON such") for number in ("NaN", "-Infinity", "1e999")),
        ('{"years": 1}', "names 'years', but the documents have the fields ['kind', 'year']"),
    ):
        assert complaint in refusal(swiftlet("search", index, "tea", "--filter", chosen))


def test_a_search_is_sorted_by_a_field(index):
    every = ("--min-score", "-1", "--sort")
    for order, ids in {
        "kind:asc": ["tea", "ski", "tax"],
        "kind:desc": ["ski", "tea", "tax"],
    }.items():
        found = swiftlet("search", index, "a hot drink", *every, order)
        assert re.findall(r"\d\.\d{4}\s+(\w+)", found.stdout) == ids
    for order, complaint in {
        "kind": "sort is 'kind', but a field and its direction are expected, asc or desc",
        "sort:asc": "these documents can be sorted by the fields ['kind', 'year']",
    }.items():
        assert complaint in refusal(swiftlet("search", index, "tea", *every, order))


def test_index_prints_a_summary_and_takes_facets(corpus, tmp_path):
    options = ("--facet", "year", "--facet", "kind", "--facet", "year")
    result = swiftlet("index", corpus, "--out", tmp_path / "index", *options)
    assert result.exit_code == 0, result.output
    assert re.search(r"3 documents, 3 passages, Flat, recall@10 1\.000", result.stdout)
    assert read_manifest(tmp_path / "index").details["facets"] == ["year", "kind"]


def test_inspect_prints_the_kind_of_an_artefact_and_that_it_is_complete(index):
    for directory, kind in ((index, "index"), (DEFAULT_ENCODER, "encoder")):
        result = swiftlet("inspect", directory)
        assert result.exit_code == 0
        assert f'"kind": "{kind}"' in result.stdout
        assert "whole" in result.stdout


def test_a_search_without_hits_says_so(index):
    for options in (("--mode", "lexical"), ("--min-score", "5"), ("--offset", "100")):
        assert "no documents found" in swiftlet("search", index, "zyzzyva", *options).stdout


@pytest.mark.check
def test_evaluate_prints_metrics_writes_a_run_and_compares_with_it(index, tmp_path):
    (tmp_path / "queries.tsv").write_text("q1\thot drink\nq2\tsnow sport\n")
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ttea\t1\nq2\tski\t1\n")
    common = ("--queries", tmp_path / "queries.tsv", "--qrels", tmp_path / "qrels.tsv")
    run = tmp_path / "run.txt"
    first = swiftlet("evaluate", index, *common, "--run-out", run)
    assert first.exit_code == 0, first.output
    assert re.search(r"nDCG@10\s+│?\s*1\.0000", first.stdout)
    assert len(run.read_text().splitlines()) == 6
    untested = swiftlet("evaluate", index, *common, "--test", "wilcoxon")
    assert "name one by --against" in untested.output
    second = swiftlet("evaluate", index, *common, "--against", run, "--metric", "MRR@10")
    assert re.search(r"MRR@10\s+│?\s*1\.0000\s+│?\s*1\.0000\s+│?\s*\+?0\.0000", second.stdout)


def test_bad_lines_are_counted_and_listed_when_they_are_to_be_skipped(tmp_path):
    corpus = write_corpus(tmp_path / "corpus.jsonl", "{broken", '{"text": "no id"}')
    result = swiftlet("index", corpus, "--out", tmp_path / "index", "--skip-bad-lines")
    assert result.exit_code == 0
    assert "2 bad lines skipped" in result.stderr
    assert "line 4" in result.stderr
    assert "line 5" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("index", "absent", "--out", "{out}"), "absent"),
        (("index", "{corpus}", "--out", "{out}", "--factory", "Nonsense"), "'Nonsense'"),
        (("index", "{corpus}", "--out", "{out}", "--facet", "x"), "the fields ['kind', 'year']"),
        (("index", "{corpus}", "--out", "{out}", "--encoder", "absent"), "nor the name"),
        (("search", "{index}", "tea", "--encoder", "bert-base-uncased"), "swiftlet export bert-b"),
        (("search", "{index}", "tea", "--encoder", "multilingual"), "swiftlet encoders get multil"),
        (("search", "{index}", "tea", "--top-k", "abc"), "'abc' is not a whole number"),
        (("search", "{index}", "tea", "--weight", "abc"), "'abc' is not a number"),
        (("search", "{folder}", "query"), "--out INDEX makes an index of its files"),
        (("search", "{encoder}", "query"), "'encoder', but 'index' is needed"),
        (("inspect", "{corpus}"), "corpus.jsonl"),
        (("serve", "absent", "--port", "0"), "absent"),
        (("serve", "{corpus}", "--port", "99999"), "--port is 99999; a whole number"),
        (("serve", "{index}", "--encoder", "absent"), "--encoder: absent is not a directory"),
        (("serve", "{index}", "--encoder", "./a/b/c"), "a/b/c is not a directory"),
        (("serve", "{index}", "--reranker", "absent"), "absent is not a directory"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(corpus, index, tmp_path, arguments, complaint):
    places = {"corpus": corpus, "folder": tmp_path, "out": tmp_path / "index", "index": index}
    places["encoder"] = DEFAULT_ENCODER
    result = swiftlet(*(argument.format(**places) for argument in arguments))
    assert complaint in refusal(result)
    assert result.stderr.startswith("swiftlet: ")  # without a log, or an empty line
    assert [entry.name for entry in tmp_path.iterdir()] == ["corpus.jsonl"]


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("train absent.toml --out {out}", "absent.toml cannot be read"),
        ("train {recipe}", "--out is missing"),
        ("train {recipe} --out {out} --set nothing", "is not of the form key=value"),
        ("distill --teacher t --out {out} --qrels q", "--test-queries and --qrels belong together"),
        ("distill --teacher t --out {out} --layers x", "--layers 'x' is no list of layers"),
        ("adapt absent --out {out}", "absent is not a directory"),
        ("adapt {index} --out {out} --qrels q", "pass exactly one --queries"),
        ("index absent --out {out} --adapt-queries", "absent: there is no such file or folder"),
        ("index {corpus} --out {index} --adapt-queries", "exists; choose another place"),
        ("mcp absent", "absent is not a directory"),
        ("evaluate {index} --queries absent --qrels absent", "absent: there is no such file"),
        ("tune {index} --queries absent --qrels absent", "absent: there is no such file"),
        ("export encoder model --out {index}", "exists; choose another place"),
        ("export verify model absent", "absent is not a directory"),
        ("export ./absent --out {out}", "./absent does not exist"),
        ("export encoder ./absent --out {out}", "./absent does not exist"),
        ("export reranker {recipe} --out {out}", "recipe.toml is a file; a model's directory is"),
        ("export router ./absent --out {out}", "./absent does not exist"),
        ("export model --out {out} --max-tokens 0", "0 is not in the range"),
        *(
            (command, "is not installed: run pip install")
            for command in (
                "train {recipe} --out {out}",
                "adapt {index} --out {out}",
                "export {model} --out {out}",
                "mcp {index}",
            )
        ),
    ],
)
def test_a_mistake_is_named_before_a_missing_package(
    command, complaint, index, tmp_path, monkeypatch
):
    for name in [*sys.modules]:
        if name.partition(".")[0] in {"training", "export"} or name.startswith(
            ("swiftlet.integrations", "mcp")
        ):
            monkeypatch.delitem(sys.modules, name)
    for name in ("torch", "onnx", "mcp"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "recipe.toml").touch()
    places = {"recipe": tmp_path / "recipe.toml", "out": tmp_path / "out", "index": index}
    places["model"] = tmp_path  # a folder
    places["corpus"] = write_corpus(tmp_path / "corpus.jsonl")
    assert complaint in refusal(swiftlet(*command.format(**places).split()))


def test_without_words_a_weight_is_said_to_change_nothing(corpus, tmp_path):
    out = tmp_path / "index"
    assert swiftlet("index", corpus, "--out", out, "--dense-only").exit_code == 0
    assert "a weight changes nothing" in swiftlet("search", out, "tea", "--weight", "1").stderr


def test_no_bad_lines_are_counted_where_none_was_read(corpus, index):
    with write(index):
        result = swiftlet("add", index, corpus, "--skip-bad-lines")
    assert "another process is writing" in refusal(result)
    assert "skipped" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint", "hints"),
    [
        (
            "search index",
            "give the text of a query, or --embedding FILE",
            ["search index 'how do", "search --help"],
        ),
        ("search index two words", "extra argument", ["search index 'how do", "search --help"]),
        ("index docs", "Missing option '--out'.", ["index docs/ --out index", "index --help"]),
        ("index docs --ou x", "Possible options: --out", ["--out index", "index --help"]),
        ("serach index tea", "Did you mean 'search'?", ["--help"]),
        ("--verbose", "Possible options: --version", ["--help"]),
        ("encoders get", "Missing argument", ["get OWNER/NAME", "get --help"]),
        ("encoders list", "No such command 'list'.", ["encoders --help"]),
        ("serve", "SWIFTLET_INDEX is not set; the path of an index", []),
    ],
)
def test_a_wrong_call_is_followed_by_an_example_and_the_place_of_the_help(
    arguments, complaint, hints, monkeypatch
):
    monkeypatch.delenv("SWIFTLET_INDEX", raising=False)
    result = swiftlet(*arguments.split())
    assert complaint in refusal(result)
    lines = result.stderr.splitlines()[1:]
    assert len(lines) == len(hints)
    assert all(hint in line for hint, line in zip(hints, lines, strict=True))


def names_of_commands(group: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """The names of each command, those in groups included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from names_of_commands(command, *names, name)
        else:
            yield (*names, name)


@pytest.mark.parametrize("names", [*names_of_commands(get_command(app))], ids=" ".join)
def test_the_example_of_a_command_is_one_that_it_takes(names):
    found: Any = get_command(app)
    for name in names:
        found = found.commands[name]
    for each in found.params:
        if each.param_type_name == "argument":
            assert each.metavar == each.metavar.upper()
    program, *words = shlex.split(found.epilog.removeprefix("Example: "))
    assert (program, *words[: len(names)]) == ("swiftlet", *names)
    found.make_context(names[-1], words[len(names) :])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("swiftlet sn", ["snapshot"]),
        ("swiftlet search index tea --rer", ["--reranker", "--rerank"]),
        ("swiftlet index docs --encoder all-MiniLM-L6-v2-query-l", [LOOKUP_QUERY_ENCODER.name]),
        ("swiftlet serve index --encoder ./enc", []),  # left to the shell, which completes paths
    ],
)
def test_a_shell_completes_commands_options_and_names_of_encoders(words, expected):
    question = {
        "_SWIFTLET_COMPLETE": "complete_bash", "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }  # fmt: skip
    result = CliRunner().invoke(app, prog_name="swiftlet", env=question)
    assert result.stdout.split() == expected


@pytest.mark.soak
def test_the_demo_answers_its_examples_over_http_and_starts_again_at_once(tmp_path):
    def run_demo() -> str:
        command = [sys.executable, "-m", "swiftlet", "demo",
                   "--directory", str(tmp_path), "--port", "0"]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
        ) as demo:  # fmt: skip
            assert demo.stdout is not None
            killer = threading.Timer(1200, demo.kill)  # else a demo without answers is never ended
            killer.start()
            shown = ""
            for line in demo.stdout:
                shown += line
                if "collections" in line:
                    break
            address = re.search(r"http://\S+:\d+", shown)
            assert address is not None, shown
            assert f"{address[0]}/#write=" in shown
            with urllib.request.urlopen(f"{address[0]}/search?q=parse+json&top_k=1") as answer:
                (hit,) = json.load(answer)["hits"]
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()
            assert demo.wait(timeout=100) == 0
            killer.cancel()
        assert hit["document_id"].startswith("json")
        return shown

    first = run_demo()
    (index,) = tmp_path.iterdir()
    built = (index / FILE_NAME).stat().st_mtime_ns
    second = run_demo()
    assert (index / FILE_NAME).stat().st_mtime_ns == built
    for shown in (first, second):
        assert "os.path" in shown


def test_the_demo_refuses_a_wrong_encoder_before_it_builds_its_index(tmp_path):
    result = swiftlet("demo", "--encoder", "absent", "--directory", tmp_path, "--port", 0)
    assert "absent is not a directory" in refusal(result)
    assert [*tmp_path.iterdir()] == []


def test_documents_are_added_deleted_merged_and_copied(index, tmp_path):
    changed = Path(shutil.copytree(index, tmp_path / "index"))
    more = write_corpus(tmp_path / "more.jsonl", '{"_id": "sun", "text": "It shines."}', "bad")
    assert "--skip-bad-lines" in refusal(swiftlet("add", changed, more))
    added = swiftlet("add", changed, more, "--skip-bad-lines")
    assert "1 bad line skipped" in added.stderr
    # All three documents of the base were replaced, so the changes were merged.
    assert "4 documents put, 4 in all" in added.stdout
    assert json.loads((changed / FILE_NAME).read_text())["details"]["change"] == 4
    deleted = swiftlet("delete", changed, "nobody")
    assert "no document has the id 'nobody'" in deleted.stderr
    assert "0 documents deleted, 4 left" in deleted.stdout
    assert "nothing to merge" in swiftlet("compact", changed).stdout
    assert "2 documents deleted, 2 left" in swiftlet("delete", changed, "sun", "tea").stdout
    assert swiftlet("add", changed, more, "--skip-bad-lines").exit_code == 0
    assert "either ids or --filter" in refusal(swiftlet("delete", changed))
    assert "all documents (4) pass" in refusal(swiftlet("delete", changed, "--filter", "{}"))
    assert swiftlet("snapshot", changed, "--out", tmp_path / "index.tar").exit_code == 0
    assert "exists" in refusal(swiftlet("snapshot", changed, "--out", tmp_path / "index.tar"))
    result = swiftlet("search", changed, "it shines", "--encoder", DEFAULT_ENCODER)
    assert "sun" in result.stdout
    with (changed / "index.faiss").open("ab") as file:
        file.write(b"more")
    assert "index.faiss" in refusal(swiftlet("compact", changed))


def test_an_addition_that_ends_early_says_how_far_it_got(index, tmp_path):
    changed = shutil.copytree(index, tmp_path / "index")
    lines = [json.dumps({"_id": f"{number}", "text": "tea"}) for number in range(150)]
    added = swiftlet("add", changed, write_corpus(tmp_path / "more.jsonl", *lines, "bad"))
    assert "line 154" in refusal(added)
    assert "100 documents written before that" in added.stderr


def test_an_addition_that_fails_at_its_end_is_said_to_be_unknown(index, tmp_path, storage_ends_at):
    changed = shutil.copytree(index, tmp_path / "index")
    long = json.dumps({"_id": "long", "text": "tea", "metadata": {"long": "x" * 60_000}})
    corpus = write_corpus(tmp_path / "long.jsonl", long)
    with storage_ends_at(40_000):  # more than what SQLite shares with readers
        added = swiftlet("add", changed, corpus)
    assert "it is not known whether the changes are written: write them again" in refusal(added)
    assert "before that" not in added.stderr
    assert "4 documents put" in swiftlet("add", changed, corpus).stdout


def test_a_merge_that_fails_does_not_refuse_an_addition(index, tmp_path, small_disk):
    changed = shutil.copytree(index, small_disk / "index")
    # Room for the changes, which take 70 kB, but not for another base.
    room = b"x" * (shutil.disk_usage(small_disk).free - 90_000)
    (small_disk / "other").write_bytes(room)
    added = swiftlet("add", changed, write_corpus(tmp_path / "same.jsonl"))
    assert added.exit_code == 0, added.output
    assert "3 documents put, 3 in all" in added.stdout
    assert "the changes are written, but could not be merged: cannot write" in added.stderr


def test_inspect_counts_and_verifies_the_changes_of_an_index(tmp_path):
    lines = [json.dumps({"_id": str(number), "text": "tea"}) for number in range(20)]
    corpus = write_corpus(tmp_path / "corpus.jsonl", *lines)
    assert swiftlet("index", corpus, "--out", tmp_path / "index").exit_code == 0
    assert "changes.sqlite" not in swiftlet("inspect", tmp_path / "index").stdout
    assert swiftlet("delete", tmp_path / "index", "3", "4").exit_code == 0
    assert "2 changes since" in swiftlet("inspect", tmp_path / "index").stdout
    changes = tmp_path / "index" / "changes.sqlite"
    changes.write_bytes(changes.read_bytes()[:-1] + b"!")
    assert "changes.sqlite has been altered" in refusal(swiftlet("inspect", tmp_path / "index"))
    with (tmp_path / "index" / "index.faiss").open("r+b") as file:
        file.write(b"!")
    assert "index.faiss has been altered" in refusal(swiftlet("inspect", tmp_path / "index"))


def test_no_control_character_of_a_document_reaches_the_terminal(tmp_path):
    escape = "\x1b]52;c;aGk=\x07 \x1b[2J \x9b2J"
    document = {"id": "a", "title": f"Title {escape}", "text": f"# Part {escape}\n\nBread {escape}"}
    (tmp_path / "a.jsonl").write_text(json.dumps(document))
    index = tmp_path / "index"
    assert swiftlet("index", tmp_path / "a.jsonl", "--out", index).exit_code == 0
    found = swiftlet("search", index, "bread")
    assert "Bread \ufffd]52;c;aGk= \ufffd[2J \ufffd2J" in found.output
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", found.output)
    refused = swiftlet("search", index, "bread", "--filter", '{"\\u001b[2J": 1}')
    assert "\x1b" not in refused.output


def test_the_recall_of_identical_passages_counts_all_of_them(tmp_path):
    lines = (json.dumps({"id": f"{number}", "text": "The same."}) for number in range(300))
    (tmp_path / "same.jsonl").write_text("\n".join(lines))
    out = ("--out", tmp_path / "index", "--encoder", LOOKUP_QUERY_ENCODER.name)
    result = swiftlet("index", tmp_path / "same.jsonl", *out)
    assert "recall@10 1.000 against exact search (scores within 1% count)" in result.stdout
