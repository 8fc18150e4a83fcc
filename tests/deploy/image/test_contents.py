import io
import json
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.image.containers import ROOT, Container, docker

LARGEST_BYTES = 400_000_000
BILL = "/opt/swiftlet/sbom.cdx.json"
LEFT_OUT = re.compile(
    r"-packages/(torch|transformers|sentence_transformers|pip|setuptools|cyclonedx)/"
    r"|/ensurepip/|/(pip|setuptools)-[^/]*(\.whl$|\.dist-info/)"
    r"|bin/(pip[\d.]*|gcc[^/]*|g\+\+[^/]*|cc|c\+\+|cpp|ld|as|make|cyclonedx-py)$"
)
PACKAGES = """
import json
from importlib.metadata import distributions
print(json.dumps({d.name: d.version for d in distributions()}))
"""


@pytest.fixture(scope="module")
def files(demo: Container) -> list[str]:
    """The paths of all files of the image."""
    command = ["docker", "export", demo.id]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as export,
        tarfile.open(fileobj=export.stdout, mode="r|") as archive,
    ):
        return [member.name for member in archive]


@pytest.fixture(scope="module")
def bill(demo: Container) -> dict[str, Any]:
    """Its bill of materials."""
    command = ["docker", "cp", f"{demo.id}:{BILL}", "-"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = json.load(archive.extractfile(Path(BILL).name))
    assert isinstance(found, dict)
    return found


def test_it_adds_no_more_than_its_bound_to_the_base_image(image: str, base_image: str) -> None:
    sizes = [int(docker("inspect", "--format", "{{.Size}}", tag)) for tag in (image, base_image)]
    assert sizes[0] - sizes[1] <= LARGEST_BYTES


def test_nothing_in_it_installs_or_compiles_or_trains(files: list[str]) -> None:
    assert len(files) > 1000
    assert [path for path in files if LEFT_OUT.search(f"/{path}")] == []


def test_every_module_of_its_own_has_its_bytecode(files: list[str]) -> None:
    paths = set(files)
    modules = [
        path for path in files
        if path.startswith(("opt/swiftlet/venv/", "opt/swiftlet/app/")) and path.endswith(".py")
    ]  # fmt: skip
    assert len(modules) > 1000
    lacking = [
        path for path in modules
        if not any(
            f"{Path(path).parent}/__pycache__/{Path(path).stem}.cpython-3{minor}.pyc" in paths
            for minor in range(11, 20)
        )
    ]  # fmt: skip
    assert lacking == []


def test_its_bill_of_materials_is_cyclonedx(bill: dict[str, Any]) -> None:
    """The build fails if the bill of materials does not follow the schema."""
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")


def test_its_bill_of_materials_lists_every_package_with_its_version(
    demo: Container, bill: dict[str, Any]
) -> None:
    listed = {(entry["name"], entry.get("version")) for entry in bill["components"]}
    project = bill["metadata"]["component"]
    python = json.loads(demo.run("python3", "-c", PACKAGES))
    own = python.pop("swiftlet-retrieval")
    assert (project["name"], project["version"]) == ("swiftlet-retrieval", own)
    assert {"faiss-cpu", "onnxruntime", "tokenizers", "fastapi", "uvicorn"} <= set(python)
    debian = demo.run("dpkg-query", "--show", "--showformat", r"${Package} ${Version}\n")
    packages = {tuple(line.split()) for line in debian.splitlines()}
    assert ("libc6", dict(packages)["libc6"]) in packages
    assert set(python.items()) | packages <= listed
    encoders = {
        path.parent.name for path in (ROOT / "swiftlet" / "encoders").glob("*/manifest.json")
    }
    assert encoders <= {name for name, _ in listed}


def test_its_packages_are_of_the_versions_that_were_tested(demo: Container) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    tested = {normalised(name): version for name, version in tested.items()}
    found = json.loads(demo.run("python3", "-c", PACKAGES))
    del found["swiftlet-retrieval"]
    assert {normalised(name): version for name, version in found.items()}.items() <= tested.items()


def test_its_labels_describe_it(image: str) -> None:
    labels = json.loads(docker("inspect", "--format", "{{json .Config.Labels}}", image))
    prefix = "org.opencontainers.image."
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert labels[f"{prefix}version"] == project["version"]
    assert labels[f"{prefix}description"] == project["description"]
    assert re.fullmatch(r"[0-9a-f]{40}", labels[f"{prefix}revision"])


def test_it_asks_to_be_stopped_by_sigterm_and_runs_without_a_shell(image: str) -> None:
    config = json.loads(docker("inspect", "--format", "{{json .Config}}", image))
    assert config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"][0].endswith("/python3")
    assert config["Healthcheck"]["Test"][0] == "CMD"


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
