"""`python -m loadtests`, from the start of the services to the report."""

import json
import os
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from loadtests.__main__ import main
from measuring.command_line import SIGNALS
from measuring.loads import closed_loop, poisson_arrivals
from measuring.processes import running
from measuring.traffic import Mix, traffic
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from tests.measuring.conftest import PACED_SERVER

ROOT = Path(__file__).parents[2]
PYTHON = shlex.quote(sys.executable)
PACED = f"{PYTHON} {shlex.quote(str(PACED_SERVER))} --port {{port}}"
ENCODERS = [DEFAULT_QUERY_ENCODER.name, LOOKUP_QUERY_ENCODER.name]


# One worker, so that the report is made once.
pytestmark = pytest.mark.xdist_group("load test")


@pytest.fixture
def refused(capsys) -> Iterator[Callable[..., list[str]]]:
    """Refuses a load test in this process; the lines that it writes, of which the last says why."""
    cores = os.sched_getaffinity(0)
    handlers = {each: signal.getsignal(each) for each in SIGNALS}

    def refuse(*arguments: object) -> list[str]:
        with pytest.raises(SystemExit, match="2"):
            main([*map(str, arguments)])
        return capsys.readouterr().err.splitlines()

    yield refuse
    os.sched_setaffinity(0, cores)
    for each, handler in handlers.items():
        signal.signal(each, handler)


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of all services, with the name of each."""
    figures = json.loads((out / "report.json").read_text("utf-8"))
    return [{"service": each["name"], **row} for each in figures["services"] for row in each[table]]


@pytest.fixture(scope="module")
def report(small_index, queries_file, tmp_path_factory) -> tuple[Path, str]:
    """The report on the service and a server of known latency; what was said on the way."""
    out = tmp_path_factory.mktemp("load") / "report"
    command = [
        sys.executable, "-m", "loadtests", "--index", f"small={small_index}",
        "--service", f"paced={PACED} --work-ms 5",
        *chain.from_iterable(("--encoder", encoder) for encoder in ENCODERS),
        "--queries", queries_file, "--rates", 40, 150, "--duration", 1, "--out", out,
    ]  # fmt: skip
    ended = subprocess.run(
        [*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == str(out / "report.md")
    return out, ended.stderr


@pytest.mark.check
def test_it_says_how_where_and_on_what_was_measured(report, small_index):
    text = (report[0] / "report.md").read_text()
    manifest = json.loads((small_index / "manifest.json").read_text())
    for needed in (
        manifest["checksum"],
        *(entry["blake3"] for entry in manifest["files"].values()),
        *(f"swiftlet serve {small_index} --encoder {encoder}" for encoder in ENCODERS),
        *(f": {encoder}, int8" for encoder in ENCODERS),
        "SWIFTLET_CACHE_BYTES=0",
        "--work-ms 5",
        f"--index small={small_index}",
        "onnxruntime 1",
        "locust 2",
        f"threads: {max(1, len(os.sched_getaffinity(0)) - 1)}",
        "100% single queries, top_k 10",
    ):
        assert needed in text


@pytest.mark.check
def test_each_service_is_asked_at_the_rates_around_its_own_saturation(report):
    out, _ = report
    found = {(row["service"], row["% of saturation"]): row for row in rows(out, "rates")}
    assert [percent for _, percent in found] == ["40", "150"] * 3
    for (_, percent), row in found.items():
        offered = float(row["offered a second"])
        before = float(row["saturation before"])
        assert offered == pytest.approx(before * float(percent) / 100, rel=0.01)
        # After a warm-up of a tenth of the second, all moments count, however slow the machine is.
        moments = poisson_arrivals(offered, 1.1, seed=0)
        assert float(row["came a second"]) == pytest.approx((moments >= 0.1).sum(), abs=1)
    # One request after the other, each in 5 ms or more.
    steps = [row for row in rows(out, "saturation") if row["service"] == "paced"]
    assert all(0 < float(row["answered a second"]) < 202 for row in steps)
    for percent in ("40", "150"):
        assert 0 < float(found["paced", percent]["saturation before"]) < 202
    assert float(found["paced", "40"]["p50"]) >= 5


@pytest.mark.check
def test_locust_asks_below_saturation(report):
    found = rows(report[0], "locust")
    assert [row["% of saturation"] for row in found] == ["40"] * 3
    for row in found:
        assert float(row["answered a second"]) > 0
        assert row["failed"] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rates", "many"], "argument --rates: 'many' is given; a number from 0.1 to 1000 is"),
        (["--duration", "0"], "argument --duration: '0' is given; a number from 1 to 3600 is"),
        (["--queries", "/nowhere"], "/nowhere: cannot be read: No such file"),
        (["--single", "0"], "--single and --batch are both 0; one must be above"),
        (["--index", "/nowhere"], "/nowhere is not a directory"),
        (["--service", "plain"], "--service 'plain' is given; NAME=COMMAND is expected"),
        (["--service", "x=  "], "the command '  ' is blank; at least 1 word is expected"),
        (["--service", "x=a 'b"], 'the command "a \'b" cannot be parsed: No closing quotation'),
        (["--service", "x|y=true"], "the name 'x|y' is given; letters or digits, and no '|', are"),
        (["--service", "a=true", "--service", "a=true"], "two of the services have the same"),
        (["--encoder", "a", "--encoder", "a"], "two of the services have the same name: "),
        (["--index", "{encoder}"], "{encoder} is of kind 'encoder', but 'index' is needed"),
        (["--setting", "THREADS"], "--setting 'THREADS' is given; NAME=VALUE is expected"),
        (["--service-cores", "x"], "argument --service-cores: invalid _cores value: 'x'"),
        (["--service-cores", "4096"], "core 4096 is not available; available are "),
        (["--out", "/proc/report"], "no report can be written to /proc/report: "),
    ],
)
def test_what_it_cannot_run_with_is_one_sentence(
    small_index, tmp_path, refused, arguments, sentence
):
    names = {"encoder": DEFAULT_ENCODER}
    words = [argument.format(**names) for argument in arguments]
    (line,) = refused("--index", small_index, "--out", tmp_path / "report", *words)
    assert line.startswith(f"loadtests: {sentence.format(**names)}")
    assert not list(tmp_path.glob("report/*"))


FILES = f"files={PYTHON} -m http.server --bind 127.0.0.1 {{port}}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ["--service", FILES, "--service-ready", "/nothing", "--start-timeout", "20"],
            "/nothing is answered 404; 200 is expected",
            marks=pytest.mark.check,
        ),
        (
            ["--service", "slow=sleep 60", "--start-timeout", "0.5"],
            "the service was not ready within 0.5 s (sleep 60): it wrote nothing; no service ",
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
    tmp_path, refused, arguments, sentence
):
    *_, line = refused(*arguments, "--duration", "1", "--out", tmp_path / "report")
    assert sentence in line


@pytest.mark.check
def test_what_was_measured_of_a_service_stays_when_it_answers_no_more(queries_file, tmp_path):
    broken = tmp_path / "broken"
    service = f"breaks={PACED} --work-ms 5 --broken-by {broken}"
    command = [
        sys.executable, "-m", "loadtests", "--service", service, "--queries", queries_file,
        "--rates", 50, 80, "--duration", 1, "--no-locust", "--out", tmp_path,
    ]  # fmt: skip
    with subprocess.Popen(
        list(map(str, command)), cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as begun:
        assert begun.stderr is not None
        for line in begun.stderr:
            if "50% of saturation" in line:
                broken.touch()
    assert begun.returncode == 0
    assert [row["% of saturation"] for row in rows(tmp_path, "rates")] == ["50"]
    report = (tmp_path / "report.md").read_text()
    assert "before 80%: it answered no request with 200 any more; from there on nothing" in report
    assert " a second right before and 0 right after: " in report


def processes_with(marker: str) -> list[int]:
    """The processes that have `marker` among their arguments."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if marker in file.read_text().split("\0"):
                found.append(int(file.parent.name))
    return found


@pytest.fixture
def marker() -> str:
    """An argument that no other process has."""
    return f"--work-ms=0.0{uuid.uuid4().int}"


def test_a_service_s_own_processes_are_counted_and_ended_with_it(marker):
    command = f"sh -c {shlex.quote(f'{PACED} {marker}; true')}"
    with running(command, ready_path="/", cores=os.sched_getaffinity(0)) as service:
        assert processes_with(marker)
        enough, requests = service.cpu_seconds + 0.02, traffic(["a"], Mix(), seed=1)
        while service.cpu_seconds <= enough:  # it ends, unless they are not counted
            closed_loop(service.address, islice(requests, 500), clients=1)
    assert not processes_with(marker)


@pytest.mark.check
def test_a_signal_ends_the_services_and_leaves_the_report_of_what_was_measured(tmp_path, marker):
    assert {*SIGNALS} == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    out = tmp_path / "report"
    process = subprocess.Popen(
        [sys.executable, "-m", "loadtests", "--service", f"one={PACED} --work-ms 5",
         "--service", f"other={PACED} {marker}", "--rates", "50", "--duration", "1", "--no-locust",
         "--out", out],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("loadtests: other: looking for"):
            break
    process.terminate()
    *_, sentence = process.stderr
    assert process.wait() == 128 + signal.SIGTERM
    assert sentence == "loadtests: ended by SIGTERM; measured: one\n"
    assert not processes_with(marker)
    assert "\n## one\n" in (out / "report.md").read_text()


def test_an_index_that_cannot_be_served_is_refused_with_the_service_s_own_sentence(
    small_index, tmp_path, refused
):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    passages = json.loads((small_index / "manifest.json").read_text())["details"]["num_passages"]
    (damaged / "manifest.json").write_bytes((small_index / "manifest.json").read_bytes())
    *progress, sentence = refused("--index", damaged, "--duration", 1, "--out", tmp_path / "report")
    assert progress == [f"loadtests: damaged, {passages} passages: starting"]
    assert sentence.startswith("loadtests: the service ended before it was ready (")
    missing = f"swiftlet: {damaged}/columns/document_ends.npy is missing: restore {damaged} from"
    assert missing in sentence
