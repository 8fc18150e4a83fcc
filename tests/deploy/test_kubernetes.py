"""The Kubernetes manifests, rendered by the real tool and checked against Kubernetes' schemas."""

import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.settings import PREFIX, Settings
from swiftlet.manifest import read_manifest
from tests.deploy.tools import DEPLOY, ROOT, ask, output_of

KUBERNETES = DEPLOY / "kubernetes"
SERVING = ["base", "overlays/volume", "overlays/image"]
JOBS = ["index-job", "shards-job"]
ALL = [*SERVING, *JOBS]
VERSIONS = ["1.30", "1.37"]
"""The oldest Kubernetes with what the manifests use (`preStop.sleep`), and a recent one."""

OPERATOR_KINDS = {"ServiceMonitor", "PrometheusRule"}
"""Custom resources: no package has their schemas; promtool checks the rules in them."""


@cache
def rendered(name: str) -> list[dict[str, Any]]:
    result = ask("kubectl", "kustomize", KUBERNETES / name)
    # Warnings about deprecated fields are on standard error.
    assert (result.returncode, result.stderr) == (0, "")
    return list(yaml.safe_load_all(result.stdout))


def only(name: str, kind: str) -> dict[str, Any]:
    (manifest,) = (manifest for manifest in rendered(name) if manifest["kind"] == kind)
    return manifest


def pod_of(name: str) -> dict[str, Any]:
    workload = only(name, "Job" if name in JOBS else "Deployment")
    pod: dict[str, Any] = workload["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ALL)
def test_every_manifest_fits_its_schema(name, version):
    for manifest in rendered(name):
        if manifest["kind"] not in OPERATOR_KINDS:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", ALL)
def test_every_container_satisfies_the_restricted_standard(name):
    pod = pod_of(name)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


@pytest.mark.parametrize("name", ALL)
def test_pods_run_as_the_user_of_the_image(name):
    (user,) = re.findall(r"^USER (\d+):\d+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    context = pod_of(name)["securityContext"]
    assert {context["runAsUser"], context["runAsGroup"], context["fsGroup"]} == {int(user)}


@pytest.mark.parametrize("name", ALL)
def test_kubernetes_sets_no_variable_that_the_service_would_refuse(name):
    assert pod_of(name)["enableServiceLinks"] is False


@pytest.mark.parametrize("name", SERVING)
def test_every_setting_exists(name):
    settings = only(name, "ConfigMap")["data"]
    assert set(settings) <= {PREFIX + field.upper() for field in Settings.model_fields}
    (container,) = pod_of(name)["containers"]
    names = [source["configMapRef"]["name"] for source in container["envFrom"][:1]]
    assert names == [only(name, "ConfigMap")["metadata"]["name"]]


@pytest.mark.parametrize("name", SERVING)
def test_a_pod_ends_only_after_its_drain(name):
    pod = pod_of(name)
    (container,) = pod["containers"]
    drain = int(only(name, "ConfigMap")["data"]["SWIFTLET_DRAIN_TIMEOUT_SECONDS"])
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > pause + drain
    readiness = container["readinessProbe"]
    assert readiness["httpGet"]["path"] == "/health/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
    assert container["startupProbe"]["httpGet"]["path"] == "/health/ready"


@pytest.mark.parametrize("name", SERVING)
def test_every_pod_selector_selects_the_pods_of_the_deployment(name):
    labels = only(name, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert only(name, "Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert only(name, "Service")["spec"]["selector"] == labels
    assert only(name, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert only(name, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    target = only(name, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", "swiftlet")
    assert "replicas" not in only(name, "Deployment")["spec"]


@pytest.mark.parametrize("name", ["overlays/volume", "overlays/image"])
def test_production_scales_on_the_queue_and_lets_prometheus_in(name):
    metrics = only(name, "HorizontalPodAutoscaler")["spec"]["metrics"]
    assert [metric["type"] for metric in metrics] == ["Resource", "Pods"]
    queue = metrics[1]["pods"]["metric"]["name"]
    adapter = yaml.safe_load((KUBERNETES / "components/monitoring/adapter-rules.yaml").read_text())
    assert [rule["name"]["as"] for rule in adapter["rules"]["custom"]] == [queue]
    sources = [rule["from"] for rule in only(name, "NetworkPolicy")["spec"]["ingress"]]
    assert sources[0] == [{"podSelector": {}}]
    assert "monitoring" in str(sources[1])
    assert only(name, "NetworkPolicy")["spec"].get("egress", []) == []
    assert all(
        manifest["metadata"].get("namespace", "swiftlet") == "swiftlet"
        for manifest in rendered(name)
    )
    assert all(":" in container["image"] for container in pod_of(name)["containers"])


def test_the_service_monitor_finds_the_port_and_names_the_job_of_the_alerts():
    monitor = only("overlays/volume", "ServiceMonitor")["spec"]
    service = only("overlays/volume", "Service")
    assert monitor["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "swiftlet"


def test_the_prometheus_rule_is_made_of_the_alerts(tmp_path):
    spec = only("overlays/volume", "PrometheusRule")["spec"]
    alerts = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    remedy = "run deploy/kubernetes/components/monitoring/prometheus-rule.sh"
    assert spec == alerts, remedy
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump(spec))
    output_of("promtool", "check", "rules", rules)


def test_the_volume_has_the_index_where_the_setting_looks_and_the_job_writes_it():
    (container,) = pod_of("overlays/volume")["containers"]
    assert container["volumeMounts"] == [
        {"name": "indexes", "mountPath": "/data", "readOnly": True}
    ]
    (builder,) = pod_of("index-job")["containers"]
    claims = {
        name: pod_of(name)["volumes"][0]["persistentVolumeClaim"]["claimName"]
        for name in ("overlays/volume", "index-job")
    }
    claim = only("overlays/volume", "PersistentVolumeClaim")["metadata"]["name"]
    assert set(claims.values()) == {claim}
    values = {variable["name"]: variable["value"] for variable in builder["env"]}
    out = re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], builder["args"][-1])
    assert out == only("overlays/volume", "ConfigMap")["data"]["SWIFTLET_INDEX"]
    assert values["VERSION"] in only("index-job", "Job")["metadata"]["name"]


def test_a_pod_of_the_job_of_shards_encodes_its_shard(tmp_path):
    assert only("shards-job", "Job")["spec"]["completions"] == 8
    (encoder,) = pod_of("shards-job")["containers"]
    lines = [json.dumps({"_id": f"{number}", "text": f"text {number}"}) for number in range(8)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    shell, option, command = encoder["command"]
    values = {
        variable["name"]: variable["value"].replace("/data", f"{tmp_path}")
        for variable in encoder["env"]
    }
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    values |= {"JOB_COMPLETION_INDEX": "7", "PATH": programs}
    output_of(shell, option, command.replace("/data", f"{tmp_path}"), environment=values)
    (shard,) = (tmp_path / values["VERSION"] / "shards").iterdir()
    assert shard.name == "8"
    details = read_manifest(shard).details
    assert (details["number"], details["of"]) == (8, 8)


def test_the_job_runs_an_interrupted_build_again_and_a_refused_one_not():
    spec = only("index-job", "Job")["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", 1)
    assert spec["backoffLimitPerIndex"] > 0
    (refused,) = (rule for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule)
    assert (refused["action"], refused["onExitCodes"]["values"]) == ("FailIndex", [2])
    command = ask("swiftlet", "index", "/nowhere", "--out", "/nowhere/index")
    assert command.returncode == 2


def test_the_init_container_copies_the_image_s_artefacts_to_the_served_folder():
    (initial,) = pod_of("overlays/image")["initContainers"]
    start = (ROOT / "deploy" / "image" / "start.py").read_text()
    built_in, volume = initial["command"][-2].removesuffix("/."), initial["command"][-1].rstrip("/")
    assert f'BUILT_IN = Path("{built_in}")' in start
    assert f'VOLUME = Path("{volume}")' in start
