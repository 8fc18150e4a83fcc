import json
import os
import shlex
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from tests.deploy.image.containers import ROOT, Container, build, docker
from tests.stops import logged_statuses, search_through_a_stop
from tests.test_readme import blocks, commands_of, shape
from tests.test_tutorial import DOCKER

LONG_QUERY = "many long words " * 600
SHELLS = ("/usr/bin/bash", "/usr/bin/dash", "/usr/bin/sh")


def test_without_a_volume_it_answers_the_readmes_search(demo: Container) -> None:
    (curl,) = commands_of("curl")
    answer = httpx.post(f"{demo.address}/search", content=curl[curl.index("-d") + 1], timeout=100)
    shown = json.loads(blocks("json")[0])
    assert answer.json()["hits"][0]["document_id"] == shown["hits"][0]["document_id"]
    assert shape(answer.json()) == shape(shown)


def test_its_health_check_finds_it_healthy(demo: Container) -> None:
    demo.wait_until_healthy()


def test_it_runs_as_a_user_that_is_not_root(demo: Container) -> None:
    assert docker("top", demo.id, "-eo", "pid,uid,gid").split()[-2:] == ["10001"] * 2


def test_it_has_a_process_for_each_core_of_its_quota(
    demo: Container, start: Callable[..., Container]
) -> None:
    assert num_processes(demo) == 1
    unlimited = start()
    unlimited.wait_until_ready()
    # With more than one, another process starts them.
    cores = len(os.sched_getaffinity(0))
    assert num_processes(unlimited) == (1 if cores == 1 else 1 + cores)


def test_it_stays_below_its_memory_limit_under_load(demo: Container) -> None:
    batch = {"queries": [LONG_QUERY] * 8}
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(
            lambda _: httpx.post(f"{demo.address}/search/batch", json=batch, timeout=60), range(8)
        )
    assert {answer.status_code for answer in answers} <= {200, 504}
    assert demo.inspect(".State.Running")
    assert not demo.inspect(".State.OOMKilled")
    assert demo.inspect(".RestartCount") == 0


def test_it_writes_nothing_even_where_it_may(image: str) -> None:
    container = Container(image)
    try:
        container.wait_until_ready()
        httpx.get(f"{container.address}/search?q=bread", timeout=100).raise_for_status()
        assert docker("diff", container.id) == ""
    finally:
        container.remove()


def test_it_needs_no_shell(start: Callable[..., Container]) -> None:
    covered = [f"--volume=/dev/null:{shell}:ro" for shell in SHELLS]
    container = start(*covered)
    container.wait_until_healthy()
    for shell in SHELLS:
        command = ["docker", "exec", container.id, shell, "-c", "exit 0"]
        assert subprocess.run(command, check=False, capture_output=True).returncode != 0


def test_a_volume_brings_the_index_and_the_encoder(
    start: Callable[..., Container], small_index: Path
) -> None:
    container = start(
        f"--volume={small_index}:/data/index:ro", f"--volume={DEFAULT_ENCODER}:/data/encoder:ro"
    )
    container.wait_until_ready()
    answer = httpx.get(f"{container.address}/search?q=lava+and+ash&top_k=1", timeout=100).json()
    assert answer["hits"][0]["metadata"]["topic"] == "volcano"
    info = httpx.get(f"{container.address}/info", timeout=100).json()
    assert info["encoder"]["name"] == DEFAULT_ENCODER.name


def test_the_tutorials_command_serves_its_index_and_encoder(
    start: Callable[..., Container], small_index: Path, tmp_path: Path
) -> None:
    lookup = DEFAULT_ENCODER.with_name("all-MiniLM-L6-v2-query-lookup")
    shutil.copytree(small_index, tmp_path / "index")
    shutil.copytree(lookup, tmp_path / "small" / "onnx" / "query_encoder")
    _, command = DOCKER.replace("\\\n", "").splitlines()
    options = shlex.split(command.replace("$PWD", str(tmp_path)).replace(":8080:", "::"))
    assert (options[:2], options[-1]) == (["docker", "run"], "swiftlet")
    container = start(*options[2:-1])
    container.wait_until_ready()
    info = httpx.get(f"{container.address}/info", timeout=100).json()
    assert info["encoder"]["name"] == lookup.name


def test_a_volume_with_an_index_alone_is_served_with_the_encoder_that_ships(
    start: Callable[..., Container], small_index: Path
) -> None:
    container = start(f"--volume={small_index}:/data/index:ro")
    container.wait_until_ready()
    info = httpx.get(f"{container.address}/info", timeout=100).json()
    assert info["encoder"]["name"] == DEFAULT_QUERY_ENCODER.name


def test_an_index_can_be_built_into_the_image(
    image: str, base_image: str, small_index: Path, start: Callable[..., Container]
) -> None:
    tag = f"{image}-test-{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="index-", dir=ROOT) as folder:
        shutil.copytree(small_index, folder, dirs_exist_ok=True)
        built = build(tag, base_image, "--build-arg", f"INDEX={Path(folder).name}")
    try:
        assert built.returncode == 0, built.stderr
        container = Container("--read-only", tag)
        container.wait_until_ready()
        info = httpx.get(f"{container.address}/info", timeout=100).json()
        container.remove()
    finally:
        docker("rmi", tag)
    manifest = json.loads((small_index / "manifest.json").read_text())
    assert info["index"]["num_documents"] == manifest["details"]["num_documents"]


def test_docker_stop_under_load_loses_no_request_of_an_open_connection(
    start: Callable[..., Container],
) -> None:
    container = start("--env=SWIFTLET_ACCESS_LOG=true")
    container.wait_until_ready()
    received = search_through_a_stop(
        lambda: httpx.Client(base_url=container.address, timeout=100),
        lambda: docker("stop", "-t", "35", container.id),
        httpx.ConnectError,
    )
    assert container.ended() == 0
    assert received == logged_statuses(container.log)
    assert set(received) <= {200, 503}


def num_processes(container: Container) -> int:
    """Without that of a health check, which comes and goes."""
    processes = docker("top", container.id, "-eo", "pid,args").splitlines()
    return sum("start.py" in each for each in processes)
