"""The image that `make test-image` has built; without its name in IMAGE, nothing here is collected.

Docker is no part of what the other tests need.
"""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.deploy.image.containers import Container

collect_ignore_glob = [] if os.environ.get("IMAGE") else ["test_*.py"]

HARDENED = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]


@pytest.fixture(scope="session")
def image() -> str:
    """The image that is tested."""
    return os.environ["IMAGE"]


@pytest.fixture(scope="session")
def base_image() -> str:
    """The image that it was built from."""
    return os.environ["BASE_IMAGE"]


@pytest.fixture
def start(image: str) -> Iterator[Callable[..., Container]]:
    """Starts containers with options of `docker run`, hardened; none outlives the test."""
    containers = []

    def start_one(*options: object, command: tuple[object, ...] = ()) -> Container:
        containers.append(Container(*HARDENED, "--health-interval=1s", *options, image, *command))
        return containers[-1]

    yield start_one
    for container in containers:
        container.remove()


@pytest.fixture(scope="session")
def demo(image: str) -> Iterator[Container]:
    """One service without a volume, on one core, for all tests that leave it as it was."""
    container = Container(*HARDENED, "--health-interval=1s", "--cpus=1", "--memory=256m", image)
    container.wait_until_ready()
    yield container
    container.remove()
