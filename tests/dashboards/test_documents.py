"""What of dashboards, rules and the table of metrics can be held to the code without a Prometheus."""

import re
import subprocess
import sys
from itertools import chain
from typing import Any

import msgspec
import pytest
import yaml

from deploy.grafana import build
from gateway.telemetry.families import CATALOGUE

DEPLOYED = build.ROOT / "deploy" / "prometheus"
RULES: dict[str, Any] = yaml.safe_load((DEPLOYED / "rules.yaml").read_text())
STORIES: dict[str, Any] = yaml.safe_load((DEPLOYED / "rules_test.yaml").read_text())

ALL_RULES = [rule for group in RULES["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in ALL_RULES if "alert" in rule}
RECORDED = {rule["record"] for rule in ALL_RULES if "record" in rule}

SECTIONS = set(re.findall(r"^### (\w+)$", (DEPLOYED / "README.md").read_text(), re.MULTILINE))
NAME = re.compile(r"\b(?:tiergate|gen_ai)_\w+|\btiergate:[\w:]+")
ENDS = {"histogram": ("_bucket", "_count", "_sum")}
EXPORTED = {f"{family.name}{end}" for family in CATALOGUE for end in ENDS.get(family.kind, ("",))}
LABELS = {*chain.from_iterable(family.labels for family in CATALOGUE)}


def names(expr: str) -> set[str]:
    """Return the metrics of a query; names of labels that look like one are none."""
    return {*NAME.findall(expr)} - LABELS


def test_every_file_is_as_it_would_be_written() -> None:
    for path, text in build.files().items():
        assert path.read_text() == text, f"{path.name}: `make dashboards` writes it"
    assert {path.name for path in build.DASHBOARDS.iterdir()} == {f"{each.name}.json" for each in build.ALL}


def test_a_config_map_has_them_all() -> None:
    [generator] = yaml.safe_load((build.DASHBOARDS.parent / "kustomization.yaml").read_text())["configMapGenerator"]
    assert sorted(generator["files"]) == sorted(f"dashboards/{each.name}.json" for each in build.ALL)
    assert sum(len(build.rendered(each)) for each in build.ALL) < 1_000_000, "more than a ConfigMap may be"


@pytest.mark.parametrize("dashboard", build.ALL, ids=lambda each: each.name)
def test_a_dashboard_works_wherever_it_is_provisioned(dashboard: build.Dashboard) -> None:
    found = msgspec.json.decode(build.rendered(dashboard))
    assert found["uid"] == f"tiergate-{dashboard.name}"
    assert len(found["uid"]) <= 40
    assert "__inputs" not in found
    variables = {each["name"]: each for each in found["templating"]["list"]}
    assert variables.keys() == {"datasource", "tier", "model", "provider"}
    assert variables["datasource"]["type"] == "datasource"
    panels = [panel for panel in found["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    taken = [cell for panel in found["panels"] for cell in cells(panel["gridPos"])]
    assert len({*taken}) == len(taken), "no panel lies on another"
    assert max(left for left, _ in taken) < build.COLUMNS


def cells(place: dict[str, int]) -> list[tuple[int, int]]:
    return [(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])]


QUERIES = [(dashboard.name, query.expr) for dashboard in build.ALL for query in build.queries(dashboard)]


@pytest.mark.parametrize(("_name", "expr"), QUERIES)
def test_a_panel_asks_for_what_there_is(_name: str, expr: str) -> None:
    assert names(expr) <= EXPORTED | RECORDED
    assert ("rate(" not in expr and "increase(" not in expr) or "$__rate_interval" in expr or "$__range" in expr
    used = {*re.findall(r"\$(\w+)", expr)}
    assert used <= {"__rate_interval", "__range", *build.VARIABLES}


def test_every_metric_is_on_a_dashboard() -> None:
    shown = {name for _, expr in QUERIES for name in names(expr)}
    shown |= {name for rule in ALL_RULES if rule.get("record") in shown for name in names(rule["expr"])}
    missing = [family.name for family in CATALOGUE if not {name for name in shown if name.startswith(family.name)}]
    assert not missing


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_what_there_is(rule: dict[str, Any]) -> None:
    assert names(rule["expr"]) <= EXPORTED | RECORDED


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_bad_it_is_what_it_is_and_what_to_do(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert alert["annotations"]["summary"]
    path, _, section = alert["annotations"]["runbook"].partition("#")
    assert (build.ROOT / path).is_file()
    assert section in {each.lower() for each in SECTIONS}


def test_every_section_is_of_an_alert() -> None:
    assert {*ALERTS} == SECTIONS


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_story_and_is_quiet_in_the_healthy_one(name: str) -> None:
    told = [case for story in STORIES["tests"] for case in story["alert_rule_test"] if case["alertname"] == name]
    assert [case for case in told if case["exp_alerts"]]
    healthy = [case for case in STORIES["tests"][0]["alert_rule_test"] if case["alertname"] == name]
    assert healthy
    assert not [case for case in healthy if case["exp_alerts"]]


def test_an_autoscaler_reads_what_it_goes_by() -> None:
    [rule] = yaml.safe_load((DEPLOYED / "adapter.yaml").read_text())["rules"]
    scaling = yaml.safe_load_all((build.ROOT / "deploy" / "k8s" / "base" / "scaling.yaml").read_text())
    metrics = [metric for each in scaling for metric in each["spec"].get("metrics", ())]
    scaled_by = [metric["pods"]["metric"]["name"] for metric in metrics if metric["type"] == "Pods"]
    assert scaled_by == [rule["name"]["as"]]
    assert scaled_by[0] in EXPORTED
    assert rule["seriesQuery"].startswith(f"{scaled_by[0]}{{")


def test_without_prometheus_it_is_said_what_to_install() -> None:
    command = [sys.executable, "-m", "tests.dashboards", sys.executable]
    done = subprocess.run(command, env={"PATH": "", "PYTHONPATH": str(build.ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "apt-get install prometheus" in done.stdout
