"""The Helm chart, rendered by the real tool: it is what Kustomize makes, and refuses bad values."""

import re
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.test_kubernetes import OPERATOR_KINDS, VERSIONS, rendered
from tests.deploy.tools import DEPLOY, ask

CHART = DEPLOY / "helm" / "swiftlet"
VOLUME = ("index.volume.enabled=true", "settings.SWIFTLET_INDEX=/data/2026-11-21/index")
INDEX_IMAGE = ("index.image=registry.example.org/swiftlet-index:2026-11-21",)
MONITORING = ("monitoring.enabled=true",)
EVERYTHING = (
    *VOLUME, *MONITORING, "autoscaling.enabled=false", "index.volume.claim=ours",
    "ingress.enabled=true", "ingress.className=nginx", "ingress.tlsSecret=certificate",
    "ingress.annotations.example\\.org/size=4m", "networkPolicy.namespaces[0]=ingress-nginx",
    "networkPolicy.egress[0].ports[0].port=19530", "imagePullSecrets[0].name=registry",
    "nodeSelector.disk=fast", "tolerations[0].key=search", "tolerations[0].operator=Exists",
)  # fmt: skip


def template(*values: str, option: str = "--set") -> tuple[int, str, str]:
    options = [word for value in values for word in (option, value)]
    result = ask("helm", "template", "swiftlet", CHART, "--namespace", "swiftlet", *options)
    return result.returncode, result.stdout, result.stderr


@cache
def chart(*values: str, option: str = "--set") -> dict[str, Any]:
    """The manifests by their kinds."""
    status, output, messages = template(*values, option=option)
    assert (status, messages) == (0, "")
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(output)}


def bare(part: Any) -> Any:
    """A manifest without what only one of the two tools adds."""
    if isinstance(part, dict):
        own = {"annotations", "namespace", "app.kubernetes.io/instance"}
        return {key: bare(value) for key, value in part.items() if key not in own}
    if isinstance(part, list):
        return [bare(each) for each in part]
    if isinstance(part, str):
        return re.sub(r"^(swiftlet-settings)-\w+$|^(index)es$", r"\1\2", part)
    return part


@pytest.mark.parametrize(
    ("overlay", "values"),
    [("overlays/volume", VOLUME + MONITORING), ("overlays/image", INDEX_IMAGE + MONITORING)],
)
def test_the_chart_renders_the_manifests_of_kustomize(overlay, values):
    ours = {kind: bare(manifest) for kind, manifest in chart(*values).items()}
    theirs = {manifest["kind"]: bare(manifest) for manifest in rendered(overlay)}
    del theirs["Namespace"], theirs["PrometheusRule"]
    assert ours == theirs


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", [(), EVERYTHING, INDEX_IMAGE])
def test_every_manifest_fits_its_schema(values, version):
    for kind, manifest in chart(*values).items():
        if kind not in OPERATOR_KINDS:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_helm_finds_nothing_in_the_chart():
    result = ask("helm", "lint", "--strict", CHART)
    assert result.returncode == 0, result.stdout


def test_values_reach_their_places():
    manifests = chart(*EVERYTHING)
    assert "HorizontalPodAutoscaler" not in manifests
    assert "PersistentVolumeClaim" not in manifests
    deployment = manifests["Deployment"]["spec"]
    assert deployment["replicas"] == 2
    (volume,) = deployment["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == "ours"
    admitted = str(manifests["NetworkPolicy"]["spec"]["ingress"])
    assert "ingress-nginx" in admitted
    assert "monitoring" in admitted
    assert manifests["NetworkPolicy"]["spec"]["egress"] == [{"ports": [{"port": 19530}]}]
    assert manifests["Ingress"]["spec"]["tls"][0]["secretName"] == "certificate"


def test_a_change_of_the_settings_starts_a_rollout_that_waits_for_the_drain():
    changed = chart("settings.SWIFTLET_DRAIN_TIMEOUT_SECONDS=60", option="--set-string")
    before, after = (each["Deployment"]["spec"]["template"] for each in (chart(), changed))
    assert before["metadata"]["annotations"] != after["metadata"]["annotations"]
    assert after["spec"]["terminationGracePeriodSeconds"] == 75


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (["replica=3"], "additional properties 'replica' not allowed"),
        (["settings.SWIFTLET_THREADS=2"], "'/settings/SWIFTLET_THREADS': got number, want string"),
        (["settings.THREADS=two"], "'THREADS' does not match pattern '^SWIFTLET_"),
        (["autoscaling.minReplicas=0"], "minimum: got 0, want 1"),
        (["index.volume.enabled=true"], "index.volume.enabled needs settings.SWIFTLET_INDEX"),
        ([*VOLUME, *INDEX_IMAGE], "index.image and index.volume.enabled are both set"),
    ],
)
def test_bad_values_are_refused(values, complaint):
    status, _, messages = template(*values)
    assert status != 0
    assert complaint in messages
