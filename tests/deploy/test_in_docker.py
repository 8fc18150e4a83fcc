"""The services of deploy/, run by Docker with the image that `make test-image` has built."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.index.building.build import build_index
from swiftlet.types import Document
from tests.deploy.image.containers import docker
from tests.deploy.tools import DEPLOY, output_of
from tests.polling import is_answered, wait_until

FILES = ["--file", DEPLOY / "compose.yaml"]
WITH_VOLUME = [*FILES, "--file", DEPLOY / "compose.volume.yaml"]
IMAGE_USER = 10001


class Deployment:
    """The service as Compose runs it, under a project name and on a port of its own."""

    def __init__(self, indexes: Path) -> None:
        self._environment = {
            "COMPOSE_PROJECT_NAME": f"swiftlet-test-{uuid.uuid4().hex[:8]}",
            "PORT": "0",
            "INDEXES": str(indexes),
        }

    def compose(self, files: list[object], *command: object) -> str:
        return output_of("docker-compose", *files, *command, environment=self._environment)

    def start(self, files: list[object]) -> None:
        self.compose(files, "up", "--detach", "--no-build", "swiftlet")
        self.files = files
        self.container = self.compose(files, "ps", "--quiet", "swiftlet").strip()
        self.url = f"http://{docker('port', self.container, '8000').strip()}"
        wait_until(self._is_ready)

    def search(self, query: str) -> set[str]:
        """The documents that it finds."""
        answer = httpx.get(f"{self.url}/search", params={"q": query, "top_k": 10}, timeout=100)
        return {hit["document_id"] for hit in answer.raise_for_status().json()["hits"]}

    def remove(self) -> None:
        self.compose(FILES, "down", "--volumes")

    def _is_ready(self) -> bool:
        assert docker("inspect", "--format", "{{.State.Running}}", self.container) == "true\n"
        return is_answered(f"{self.url}/health/ready")


@pytest.fixture
def versions(tmp_path) -> Path:
    """A folder with two versions of an index, the second with one document more."""
    for number, version in ((2, "2026-11-20"), (3, "2026-11-21")):
        documents = [Document(str(n), "Tea", f"Tea number {n} is hot.", {}) for n in range(number)]
        build_index(documents, DEFAULT_ENCODER, tmp_path / version / "index")
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def deployment(versions) -> Iterator[Deployment]:
    deployment = Deployment(versions)
    yield deployment
    deployment.remove()


def lead_current(versions: Path, version: str) -> None:
    """Replace the link atomically, as docs/operations.md describes."""
    (versions / "next").symlink_to(version)
    (versions / "next").rename(versions / "current")


def test_compose_serves_the_demo(deployment):
    deployment.start(FILES)
    assert "zipfile" in deployment.search("read a zip archive")


def test_an_index_is_published_and_taken_back_without_a_pause(deployment, versions):
    lead_current(versions, "2026-11-20")
    deployment.start(WITH_VOLUME)
    assert deployment.search("tea") == {"0", "1"}
    for version, found in (("2026-11-21", {"0", "1", "2"}), ("2026-11-20", {"0", "1"})):
        lead_current(versions, version)
        deployment.compose(WITH_VOLUME, "kill", "-s", "SIGHUP", "swiftlet")
        wait_until(lambda found=found: deployment.search("tea") == found)


def test_an_incomplete_version_is_refused_and_the_previous_one_stays_in_use(deployment, versions):
    lead_current(versions, "2026-11-20")
    deployment.start(WITH_VOLUME)
    (versions / "2026-11-21" / "index" / "index.faiss").write_bytes(b"half")
    lead_current(versions, "2026-11-21")
    deployment.compose(WITH_VOLUME, "kill", "-s", "SIGHUP", "swiftlet")
    refused = 'swiftlet_reloads_total{outcome="corrupt_file"} 1.0'
    wait_until(lambda: refused in httpx.get(f"{deployment.url}/metrics", timeout=100).text)
    assert deployment.search("tea") == {"0", "1"}


def test_a_stop_ends_it_with_status_0(deployment):
    deployment.start(FILES)
    deployment.compose(FILES, "stop", "swiftlet")
    assert docker("inspect", "--format", "{{.State.ExitCode}}", deployment.container) == "0\n"


@pytest.fixture
def run_in_image(tmp_path) -> Callable[..., str]:
    """Runs a container with the restrictions of the pods of deploy/kubernetes, with a /data."""
    shutil.chown(tmp_path, IMAGE_USER, IMAGE_USER)

    def run(*options: object, command: list[str]) -> str:
        confined = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
        mounts = [f"--volume={tmp_path}:/data", "--tmpfs=/tmp"]
        return docker("run", "--rm", *confined, *mounts, *options, os.environ["IMAGE"], *command)

    return run


def test_the_init_container_makes_an_index_that_is_served(run_in_image):
    patch = DEPLOY / "kubernetes" / "components" / "index-image" / "deployment.yaml"
    pod = yaml.safe_load(patch.read_text())["spec"]["template"]["spec"]
    program, *arguments = pod["initContainers"][0]["command"]
    run_in_image(f"--entrypoint={program}", command=arguments)
    assert "zipfile" in run_in_image(command=["search", "/data/index", "read a zip archive"])


def test_the_job_writes_its_index_to_the_path_in_its_manifest(run_in_image, tmp_path):
    manifest = (DEPLOY / "kubernetes" / "index-job" / "job.yaml").read_text()
    (container,) = yaml.safe_load(manifest)["spec"]["template"]["spec"]["containers"]
    (tmp_path / "corpus.jsonl").write_text('{"_id": "tea", "title": "Tea", "text": "It is hot."}\n')
    arguments = container["args"]
    for variable in container["env"]:
        named = f"$({variable['name']})"
        arguments = [argument.replace(named, variable["value"]) for argument in arguments]
    run_in_image(command=arguments)
    assert "tea" in run_in_image(command=["search", arguments[-1], "a hot drink"])
