"""The queries of the dashboard, sent to a real Prometheus as Grafana does."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.deploy.test_prometheus import metrics_of, served_by
from tests.deploy.tools import DEPLOY
from tests.polling import wait_until

pytestmark = pytest.mark.check

GRAFANA = DEPLOY / "grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards" / "swiftlet.json").read_text())
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"]}
VARIABLES = {"$__rate_interval": "20s", "$instance": ".*"}


def filled_in(expression: str) -> str:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


EXPRESSIONS = {
    title: [filled_in(target["expr"]) for target in panel["targets"]]
    for title, panel in PANELS.items()
}
DRAWN = {
    metric
    for expressions in EXPRESSIONS.values()
    for expression in expressions
    for metric in metrics_of(expression)
}


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_prometheus_has_something_for_every_line_of_a_panel(prometheus, title):
    for expression in EXPRESSIONS[title]:
        assert "$" not in expression
        assert wait_until(lambda expression=expression: prometheus.query(expression)), expression


def test_prometheus_takes_the_annotation_and_the_list_of_instances(prometheus, service):
    (annotation,) = DASHBOARD["annotations"]["list"]
    prometheus.query(filled_in(annotation["expr"]))
    instance = next(v for v in DASHBOARD["templating"]["list"] if v["name"] == "instance")
    assert instance["query"]["query"] == 'label_values(up{job="swiftlet"}, instance)'
    series = prometheus.get("series", **{"match[]": 'up{job="swiftlet"}'})
    assert [one["instance"] for one in series] == [service.url.removeprefix("http://")]


def test_every_metric_of_the_service_is_drawn(service):
    """All panels except those without a description."""
    said = re.sub(r"_(bucket|sum|count)\b", "", " ".join(served_by(service))).split()
    left_out = {"process_virtual_memory_bytes", "process_max_fds"}
    drawn = {metric for metric in said if any(name.startswith(metric) for name in DRAWN)}
    assert {metric for metric in {*said} - drawn if not metric.endswith("_created")} == left_out


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    cells = [cell for panel in DASHBOARD["panels"] for cell in cells_of(panel["gridPos"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def cells_of(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(place["x"], place["x"] + place["w"]):
        for y in range(place["y"], place["y"] + place["h"]):
            yield x, y


def test_every_panel_has_a_description_and_a_unit():
    for title, panel in PANELS.items():
        assert panel["description"], title
        assert panel["fieldConfig"]["defaults"]["unit"], title


def test_compose_mounts_the_files_that_provision_grafana():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    mounts = dict(volume.split(":")[1::-1] for volume in compose["grafana"]["volumes"])
    (provider,) = yaml.safe_load(
        (GRAFANA / "provisioning" / "dashboards" / "swiftlet.yml").read_text()
    )["providers"]
    assert mounts[provider["options"]["path"]] == "./grafana/dashboards"
    (source,) = yaml.safe_load(
        (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text()
    )["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose
    assert DASHBOARD["templating"]["list"][0]["query"] == "prometheus"
