"""`python -m loadtests`, from the start of the services to the report."""

import csv
import gzip
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from tests.loadtests.conftest import PACED_SERVER

ROOT = Path(__file__).parents[2]
PACED = f"{shlex.quote(sys.executable)} {shlex.quote(str(PACED_SERVER))} --port {{port}}"
PICTURES = {"latency.png", "percentiles.png", "stages.png", "rejections.png"}
TABLES = {"rates.csv", "saturation.csv", "locust.csv"}


# One worker, so that the report is made once.
pytestmark = pytest.mark.xdist_group("load test")


def load_test(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "loadtests", *map(str, arguments)],
        cwd=ROOT, check=False, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def report(
    small_index: Path, queries_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The report on the service and a server of known latency; what was said on the way."""
    out = tmp_path_factory.mktemp("load") / "report"
    ended = load_test(
        "--index", f"small={small_index}", "--service", f"paced={PACED} --work-ms 5",
        "--queries", queries_file, "--rates", 40, 150, "--duration", 1, "--out", out,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == str(out / "report.md")
    return out, ended.stderr


def test_the_report_has_its_pictures_tables_and_every_request(report: tuple[Path, str]) -> None:
    out, _ = report
    assert {file.name for file in out.iterdir()} == {"report.md", "requests", *PICTURES, *TABLES}
    for name in PICTURES:
        height, width, _ = imread(out / name).shape
        assert width > height > 400
    assert len(list((out / "requests").iterdir())) == 4
    text = (out / "report.md").read_text()
    assert all(f"({name})" in text for name in PICTURES)


def test_it_says_how_where_and_on_what_was_measured(
    report: tuple[Path, str], small_index: Path
) -> None:
    text = (report[0] / "report.md").read_text()
    manifest = json.loads((small_index / "manifest.json").read_text())
    for needed in (
        manifest["checksum"],
        *(entry["sha256"] for entry in manifest["files"].values()),
        f"swiftlet serve {small_index}",
        "SWIFTLET_CACHE_BYTES=0",
        "--work-ms 5",
        f"--index small={small_index}",
        "onnxruntime 1",
        "locust 2",
        f"threads: {max(1, len(os.sched_getaffinity(0)) - 1)}",
        "100% single queries, top_k 10",
    ):
        assert needed in text


def test_each_service_is_asked_at_the_rates_around_its_own_saturation(
    report: tuple[Path, str],
) -> None:
    out, _ = report
    found = {(row["service"], row["% of saturation"]): row for row in rows(out / "rates.csv")}
    assert [percent for _, percent in found] == ["40", "150", "40", "150"]
    saturation = {}
    for row in rows(out / "saturation.csv"):
        rate = float(row["answered a second"])
        saturation[row["service"]] = max(rate, saturation.get(row["service"], 0.0))
    for (service, percent), row in found.items():
        offered = float(row["offered a second"])
        assert offered == pytest.approx(saturation[service] * float(percent) / 100, rel=0.01)
        assert float(row["came a second"]) == pytest.approx(offered, rel=0.5)
    # One after the other, each in 5 ms: what comes beyond waits ever longer.
    assert 20 < saturation["paced"] < 202
    assert float(found["paced", "40"]["p50"]) >= 5
    assert float(found["paced", "150"]["p99"]) > float(found["paced", "40"]["p50"])


def test_locust_asks_below_saturation(report: tuple[Path, str]) -> None:
    found = rows(report[0] / "locust.csv")
    assert [row["% of saturation"] for row in found] == ["40", "40"]
    for row in found:
        assert float(row["answered a second"]) > 0
        assert row["failed"] == "0"


def test_the_single_requests_are_those_of_the_tables(report: tuple[Path, str]) -> None:
    out, _ = report
    (row,) = [r for r in rows(out / "rates.csv") if r["service"] == "paced" and r["p50"]][:1]
    with gzip.open(out / "requests" / "paced-40.csv.gz", "rt") as lines:
        requests = list(csv.DictReader(lines))
    measured = [each for each in requests if 0 <= float(each["scheduled"]) < 1]
    assert len(measured) == pytest.approx(float(row["came a second"]), abs=0.1)
    latencies = [float(each["finished"]) - float(each["scheduled"]) for each in measured]
    assert 1000 * max(latencies) == pytest.approx(float(row["longest"]), rel=0.01)
    assert {each["server_timing"] for each in measured} == {"work;dur=5.000"}


def test_the_service_and_the_generator_counted_the_same(report: tuple[Path, str]) -> None:
    assert "the service counted" not in (report[0] / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rates", "many"], "argument --rates: 'many' is given; a number from 0.1 to 1000 is"),
        (["--rates", "0"], "argument --rates: '0' is given; a number from 0.1 to 1000 is expected"),
        (["--rates", "nan"], "argument --rates: 'nan' is given; a number from 0.1 to 1000 is"),
        (["--duration", "0"], "argument --duration: '0' is given; a number from 1 to 3600 is"),
        (["--queries", "/nowhere"], "the queries /nowhere cannot be read: No such file"),
        (["--queries", "{empty}"], "the queries {empty} are none; at least 1 is expected"),
        (["--single", "0"], "--single, --batch and --cached are all 0; one must be above"),
        (["--index", "/nowhere"], "/nowhere is no artefact: /nowhere/manifest.json cannot be read"),
        (["--service", "plain"], "--service 'plain' is given; NAME=COMMAND is expected"),
        (["--setting", "THREADS"], "--setting 'THREADS' is given; NAME=VALUE is expected"),
        (["--service-cores", "x"], "argument --service-cores: 'x' is given; numbers of cores"),
        (["--service-cores", "4096"], "core 4096 is not to be had; there are "),
        (["--out", "/proc/report"], "no report can be written to /proc/report: "),
    ],
)
def test_what_it_cannot_run_with_is_one_sentence(
    small_index: Path, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    words = [argument.format(empty=empty) for argument in arguments]
    ended = load_test("--index", small_index, "--out", tmp_path / "report", *words)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"loadtests: {sentence.format(empty=empty)}")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--service", "slow=sleep 60", "--start-timeout", "0.5"],
            "the service was not ready within 0.5 s (sleep 60): it said nothing",
        ),
        (
            ["--service", "gone=sh -c 'echo no model here; exit 1'"],
            "the service ended before it was ready (sh -c 'echo no model here; exit 1'): no model",
        ),
        (
            ["--service", "none=no-such-program"],
            "no-such-program cannot be started: No such file or directory",
        ),
        (
            ["--service", f"lost={PACED} --end-after 3"],
            "the service has ended: ",
        ),
    ],
)
def test_a_service_that_does_not_stay_is_one_sentence_and_nothing_is_left_running(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    ended = load_test(*arguments, "--duration", "1", "--out", tmp_path / "report")
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith(f"loadtests: {sentence}")
    assert "Traceback" not in ended.stderr


def test_an_index_that_cannot_be_served_is_refused_with_the_service_s_own_sentence(
    small_index: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    passages = json.loads((small_index / "manifest.json").read_text())["details"]["num_passages"]
    (damaged / "manifest.json").write_bytes((small_index / "manifest.json").read_bytes())
    ended = load_test("--index", damaged, "--duration", "1", "--out", tmp_path / "report")
    assert ended.returncode == 2
    *progress, sentence = ended.stderr.splitlines()
    assert progress == [f"loadtests: damaged, {passages} passages: starting"]
    assert sentence.startswith("loadtests: the service ended before it was ready (")
    assert sentence.endswith(f"swiftlet: {damaged}/documents.sqlite is missing")
