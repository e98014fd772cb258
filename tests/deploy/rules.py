"""`python -m tests.deploy.rules`: write the rules of Prometheus down as an object of its operator's, which takes no file."""

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.tools import ROOT

RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
OBJECT = ROOT / "deploy" / "k8s" / "components" / "prometheusrule" / "prometheusrule.yaml"
HEAD = "# Written by `make prometheusrule` from deploy/prometheus/rules.yaml.\n"


def groups(path: Path = RULES) -> list[Any]:
    """Return the groups of a file of rules; none where there is no file."""
    return list(yaml.safe_load(path.read_text())["groups"]) if path.exists() else []


def written(groups: list[Any]) -> str:
    """Return the object's text."""
    metadata = {"name": "tiergate", "labels": {"app.kubernetes.io/name": "tiergate"}}
    kind = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule"}
    return HEAD + yaml.safe_dump({**kind, "metadata": metadata, "spec": {"groups": groups}}, sort_keys=False, width=130)


if __name__ == "__main__":
    OBJECT.write_text(written(groups()))
    sys.exit(0)
