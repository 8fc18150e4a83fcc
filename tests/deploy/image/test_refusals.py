import hashlib
import io
import json
import os
import re
import socket
import tarfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deploy.image.containers import Container, build, docker


@pytest.fixture
def fresh_volume() -> Iterator[str]:
    """The name of a volume that Docker makes when it is first mounted."""
    name = f"swiftlet-test-{uuid.uuid4().hex}"
    yield name
    docker("volume", "rm", name)


def test_an_empty_folder_is_no_demo(start: Callable[..., Container], tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    container = start(f"--volume={tmp_path}:/data:ro")
    assert container.refusal().startswith("/data/index is not a directory; swiftlet index")


def test_an_empty_volume_is_no_demo(fresh_volume: str, start: Callable[..., Container]) -> None:
    container = start(f"--volume={fresh_volume}:/data")
    assert container.refusal().startswith("/data/index is not a directory; swiftlet index")


def test_a_folder_without_an_index_is_refused(
    start: Callable[..., Container], tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "notes.txt").write_text("no index")
    container = start(f"--volume={tmp_path}:/data/index:ro")
    assert container.refusal().startswith("/data/index has no manifest.json: it is no artefact; ")


def test_a_volume_that_its_user_may_not_read_is_refused(
    start: Callable[..., Container], tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    assert os.geteuid() != 10001
    assert start(f"--volume={tmp_path}:/data:ro").refusal() == "/data/index: Permission denied"


@pytest.mark.parametrize(
    ("memory", "sentence"),
    [
        ("24m", r"at least 78 MiB is expected for Python and its packages alone"),
        ("96m", r"at least 1\d\d MiB is expected to serve"),
    ],
)
def test_a_memory_limit_that_is_too_small_is_refused_at_the_start(
    start: Callable[..., Container], memory: str, sentence: str
) -> None:
    container = start(f"--memory={memory}")
    refusal = container.refusal()
    assert re.fullmatch(f"the memory limit is {memory[:-1]} MiB; {sentence}", refusal)
    assert not container.inspect(".State.OOMKilled")


def test_the_least_accepted_memory_is_enough_to_serve_and_the_figure_for_a_reload_to_reload(
    start: Callable[..., Container],
) -> None:
    refusal = start("--memory=96m", "--cpus=1").refusal()
    serving = start(f"--memory={mebibytes(refusal, 'is expected to serve')}m", "--cpus=1")
    serving.wait_until_ready()
    least = mebibytes(serving.log, "that a reload needs: one may end the process")
    reloading = start(f"--memory={least}m", "--cpus=1")
    reloading.wait_until_ready()
    for number in range(1, 4):
        docker("kill", "--signal=HUP", reloading.id)
        reloading.wait_until(lambda number=number: reloading.log.count("reloaded: ") == number)
    assert "that a reload needs" not in reloading.log


def mebibytes(text: str, what: str) -> int:
    (found,) = re.findall(rf"(\d+) MiB {what}", text)
    return int(found)


def test_a_busy_port_is_refused(start: Callable[..., Container]) -> None:
    with socket.create_server(("0.0.0.0", 0)) as busy:
        port = busy.getsockname()[1]
        container = start("--network=host", f"--env=SWIFTLET_PORT={port}")
        assert container.refusal() == (
            f"cannot listen on 0.0.0.0 port {port}: another process listens there; "
            "choose another port"
        )


def test_an_unknown_setting_is_refused(start: Callable[..., Container]) -> None:
    assert "SWIFTLET_THREAD is no setting" in start("--env=SWIFTLET_THREAD=1").refusal()


@pytest.mark.parametrize("argument", ["INDEX", "ENCODER"])
def test_a_folder_that_is_no_artefact_is_not_built_in(
    image: str, base_image: str, argument: str
) -> None:
    tag = f"{image}-test-{uuid.uuid4().hex}"
    result = build(tag, base_image, "--build-arg", f"{argument}=service")
    assert result.returncode != 0
    assert "artefacts.py: given/service has no manifest.json: it is no artefact" in (
        result.stdout + result.stderr
    )


def test_a_build_without_docker_is_refused(base_image: str, tmp_path: Path) -> None:
    host = f"unix://{tmp_path}/docker.sock"
    result = build("never", base_image, DOCKER_HOST=host)
    assert result.returncode == 2
    assert result.stderr == (
        f"make image: no Docker daemon answers at {host}; start it, or set DOCKER_HOST\n"
    )


def test_a_base_image_of_another_architecture_is_refused(tmp_path: Path) -> None:
    server = docker("version", "--format", "{{.Server.Os}}/{{.Server.Arch}}").strip()
    architecture = "arm64" if server != "linux/arm64" else "amd64"
    tag = f"swiftlet-test-{uuid.uuid4().hex}:latest"
    docker("load", "--input", empty_image(tmp_path / "image.tar", tag, architecture))
    try:
        result = build("never", tag)
    finally:
        docker("rmi", tag)
    assert result.returncode == 2
    assert result.stderr == (
        f"make image: {tag} is for linux/{architecture}, but Docker runs on {server}\n"
    )


def empty_image(path: Path, tag: str, architecture: str) -> Path:
    """An image without files, as `docker save` writes one."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w"):
        pass
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": architecture,
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    files = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer.getvalue(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path
