"""The compose files, as the real tool reads them."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import PREFIX, Settings
from swiftlet.address import parse_address
from tests.deploy.tools import DEPLOY, ROOT, ask, output_of

FILES = ["--file", DEPLOY / "compose.yaml"]
WITH_VOLUME = [*FILES, "--file", DEPLOY / "compose.volume.yaml"]
WITH_MILVUS = [*FILES, "--file", DEPLOY / "compose.milvus.yaml"]


@cache
def services_of(*files: object, **environment: str) -> dict[str, Any]:
    text = output_of("docker-compose", *files, "config", environment=environment)
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    return services


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return services_of(*FILES)


def test_every_service_is_confined_and_bounded(services):
    assert set(services) == {"swiftlet", "prometheus", "grafana"}
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["mem_limit"]
        assert float(service["cpus"]) > 0
        assert service["pids_limit"] > 0
        assert service["restart"] == "unless-stopped"
        assert "privileged" not in service
        assert "network_mode" not in service


def test_ports_are_only_open_to_this_machine_by_default():
    for service in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values():
        (port,) = service["ports"]
        assert port.startswith(("127.0.0.1:", "${ADDRESS:-127.0.0.1}:"))


def test_a_stop_lasts_longer_than_the_drain(services):
    drain_seconds = Settings(index=Path("i"), encoder=Path("to/e")).drain_timeout_seconds
    assert services["swiftlet"]["stop_grace_period"] == "40s"
    assert drain_seconds < 40


def test_hadolint_finds_nothing_in_the_dockerfile():
    output_of("hadolint", ROOT / "Dockerfile")


def test_the_image_has_the_health_check_and_names_its_user_by_number():
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^HEALTHCHECK ", dockerfile, re.MULTILINE)
    assert re.search(r"^USER \d+:\d+$", dockerfile, re.MULTILINE)


def test_every_setting_that_a_file_names_exists(services):
    named = {*services["swiftlet"]["environment"]}
    named |= {*services_of(*WITH_VOLUME, INDEXES="/srv/indexes")["swiftlet"]["environment"]}
    named |= {*services_of(*WITH_MILVUS, COLLECTION="papers")["swiftlet"]["environment"]}
    assert named <= {PREFIX + name.upper() for name in Settings.model_fields}


def test_keys_of_the_shell_reach_the_service():
    keys = {"SEARCH_KEYS": "a-search-key-0123", "WRITE_KEYS": "a-write-key-01234"}
    environment = services_of(*FILES, **keys)["swiftlet"]["environment"]
    assert environment["SWIFTLET_SEARCH_KEYS"] == keys["SEARCH_KEYS"]
    assert environment["SWIFTLET_ADMIN_KEYS"] == ""
    assert environment["SWIFTLET_WRITE_KEYS"] == keys["WRITE_KEYS"]


def test_an_index_of_ones_own_is_mounted_for_reading_where_the_setting_looks_for_it():
    service = services_of(*WITH_VOLUME, INDEXES="/srv/indexes")["swiftlet"]
    assert service["environment"]["SWIFTLET_INDEX"] == "/data/current/index"
    (volume,) = service["volumes"]
    expected = {"type": "bind", "source": "/srv/indexes", "target": "/data", "read_only": True}
    assert volume == volume | expected


def test_a_collection_is_served_from_milvus_and_its_parts():
    services = services_of(*WITH_MILVUS, COLLECTION="papers")
    assert set(services) == {"swiftlet", "prometheus", "grafana", "milvus", "etcd", "minio"}
    address = services["swiftlet"]["environment"]["SWIFTLET_INDEX"]
    assert f"{parse_address(address)}" == "milvus://milvus:19530/papers"
    assert (
        services["swiftlet"]["build"]["args"]["EXTRAS"]
        in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )
    assert set(services["milvus"]["depends_on"]) == {"etcd", "minio"}
    (port,) = yaml.safe_load((DEPLOY / "compose.milvus.yaml").read_text())["services"]["milvus"][
        "ports"
    ]
    assert port.startswith("127.0.0.1:")
    assert "ports" not in services["etcd"] | services["minio"]


def test_without_the_folder_of_indexes_the_error_names_the_variable():
    refused = ask("docker-compose", *WITH_VOLUME, "config", environment={"INDEXES": ""})
    assert refused.returncode != 0
    assert "set it to the folder that has the versions of the index" in refused.stderr


def test_the_files_that_compose_mounts_exist(services):
    text = (DEPLOY / "compose.yaml").read_text()
    sources = re.findall(r"- (\./[\w/]+):", text)
    assert len(sources) == 3
    assert [source for source in sources if not (DEPLOY / source).is_dir()] == []


def test_the_variables_that_env_explains_are_those_that_the_files_read():
    explained = set(re.findall(r"^#?([A-Z_]+)=", (DEPLOY / ".env").read_text(), re.MULTILINE))
    read = set()
    for file in DEPLOY.glob("compose*.yaml"):
        read |= set(re.findall(r"\$\{([A-Z_]+)", file.read_text()))
    assert explained == read - {"BASE_IMAGE"} | {"COMPOSE_PROJECT_NAME"}
