"""The alerts, read by Prometheus and promtool."""

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.conftest import SEARCHES
from tests.deploy.prometheus import TIMEOUT_SECONDS
from tests.deploy.tools import DEPLOY, ROOT, output_of
from tests.polling import wait_until
from tests.service.conftest import Server

pytestmark = pytest.mark.check

RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"] for rule in RULES if "record" in rule}


def metrics_of(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:swiftlet|process)_\w+", expression))


def served_by(service: Server) -> set[str]:
    families = text_string_to_metric_families(
        httpx.get(f"{service.url}/metrics", timeout=TIMEOUT_SECONDS).text
    )
    return {sample.name for family in families for sample in family.samples}


def test_promtool_accepts_the_configuration():
    output_of("promtool", "check", "config", DEPLOY / "prometheus" / "prometheus.yml")


def test_promtool_sees_each_alert_fire_and_not_fire():
    tests = DEPLOY / "prometheus" / "alerts_test.yml"
    output_of("promtool", "test", "rules", tests)
    cases = [case for test in yaml.safe_load(tests.read_text())["tests"]
             for case in test["alert_rule_test"]]  # fmt: skip
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == set(ALERTS)
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_severity_and_a_section_in_the_operations_guide(name):
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"page", "ticket"}
    page, anchor = rule["annotations"]["runbook"].split("#")
    guide = (ROOT / page).read_text()
    sections = dict(re.findall(r"^### (\w+)\n\n(.+?)(?=\n#|\Z)", guide, re.DOTALL | re.MULTILINE))
    assert anchor == name.lower()
    assert "**Do:**" in sections[name]


def test_a_script_writes_absolute_addresses_of_runbooks(tmp_path):
    deploy = shutil.copytree(DEPLOY, tmp_path / "deploy")
    for page in ("https://a.example/x/operations.md", "http://b.example:8000/operations.html?v=1"):
        output_of(deploy / "prometheus" / "runbooks.sh", page)
        written = (deploy / "prometheus" / "alerts.yml").read_text()
        found = re.findall(r"runbook\w*: .*", written)
        assert found == [f"runbook_url: {page}#{name.lower()}" for name in ALERTS]
        rule = deploy / "kubernetes" / "components" / "monitoring" / "prometheus-rule.yaml"
        assert yaml.safe_load(rule.read_text())["spec"] == yaml.safe_load(written)
        output_of("promtool", "test", "rules", deploy / "prometheus" / "alerts_test.yml")


@pytest.mark.parametrize(
    "address", ["", "docs/operations.md", "//a.example/x", "https://", "https:///x", "https://a b"]
)
def test_the_script_of_runbooks_refuses_an_address_that_is_not_absolute(address):
    script = [DEPLOY / "prometheus" / "runbooks.sh", *[address] * bool(address)]
    before = (DEPLOY / "prometheus" / "alerts.yml").read_bytes()
    found = subprocess.run(script, check=False, capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert f"'{address}' is no address of your copy of docs/operations.md" in found.stderr
    assert (DEPLOY / "prometheus" / "alerts.yml").read_bytes() == before


def test_every_alert_of_the_operations_guide_exists():
    guide = (ROOT / "docs" / "operations.md").read_text()
    assert set(re.findall(r"\bSwiftlet[A-Z]\w+", guide)) == set(ALERTS)


def test_every_metric_that_a_rule_names_is_served(service):
    named = set().union(*(metrics_of(rule["expr"]) for rule in RULES))
    assert named
    assert named - served_by(service) == set()


def test_every_recorded_series_that_a_rule_names_is_recorded():
    named = set().union(*(re.findall(r"\bswiftlet:[\w:]+", rule["expr"]) for rule in RULES))
    assert named == RECORDED


def test_prometheus_evaluates_every_rule_and_a_healthy_service_fires_no_alert(prometheus):
    def states() -> dict[str, tuple[str, str]]:
        groups = prometheus.get("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return {rule["name"]: (rule["health"], rule.get("state", "")) for rule in rules}

    expected = dict.fromkeys(ALERTS, ("ok", "inactive")) | dict.fromkeys(RECORDED, ("ok", ""))
    # An evaluation before the first scrape finds no service at all.
    wait_until(lambda: states() == expected)


def test_prometheus_counts_the_requests(prometheus):
    counted = 'swiftlet_requests_total{route="/search", status="200"}'
    (series,) = wait_until(lambda: prometheus.query(f"{counted} >= {SEARCHES}"))
    assert float(series["value"][1]) == SEARCHES


def test_the_memory_limit_in_the_alerts_is_that_of_compose_and_kubernetes(prometheus):
    (limit,) = wait_until(lambda: prometheus.query("swiftlet:memory_limit_bytes"))
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["swiftlet"]
    deployment = yaml.safe_load(Path(DEPLOY / "kubernetes/base/deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert compose["mem_limit"] == "1g"
    assert container["resources"]["limits"]["memory"] == "1Gi"
    assert float(limit["value"][1]) == 2**30
