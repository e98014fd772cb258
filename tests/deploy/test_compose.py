"""The compose file by meaning: the same gateway as on Kubernetes, with stores that others could share, and time to leave."""

import re
from typing import Any

import pytest
import yaml

from gateway.config import replicas
from tests.deploy.manifests import K8S, SECRETS, for_trying, read
from tests.deploy.test_manifests import VERSION, problems
from tests.deploy.tools import ROOT

PATH = ROOT / "deploy" / "compose" / "compose.yaml"
OURS = ("gateway", "migration")
OF_MONITORING = ("prometheus", "grafana")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(PATH.read_text())["services"]
    return found


def secrets() -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in (PATH.parent / "secrets").iterdir()}


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Return what of the tree a service sees, by where it sees it."""
    split = (each.split(":") for each in service["volumes"])
    return {target: source for source, target, *_ in split if source.startswith(".")}


def test_the_gateway_takes_its_configuration_and_what_it_is_given(services: dict[str, Any]) -> None:
    text = (K8S / "base" / "gateway.yaml").read_text()
    assert problems(text, secrets()) == []
    assert secrets().keys() == for_trying().keys()
    for name in OURS:
        assert mounts(services[name]) == {
            "/etc/tiergate/gateway.yaml": "../k8s/base/gateway.yaml",
            SECRETS.rstrip("/"): "./secrets",
        }
    config = read(text, secrets()).config
    assert config.redis.url.reveal().startswith("redis://valkey:")
    password = services["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert config.database.url.reveal() == f"postgresql://tiergate:{password}@postgres/tiergate"


def test_it_is_not_killed_before_it_has_ended(services: dict[str, Any]) -> None:
    shutdown = read((K8S / "base" / "gateway.yaml").read_text(), secrets()).config.shutdown
    assert services["gateway"]["stop_grace_period"] == f"{shutdown.delay_s + shutdown.drain_s + 30:.0f}s"


def test_it_runs_with_no_more_than_it_needs(services: dict[str, Any]) -> None:
    for name in OURS:
        service = services[name]
        assert (service["read_only"], service["user"], service["cap_drop"]) == (True, "65532:65532", ["ALL"])
        assert service["environment"] == {replicas.VARIABLE: "1"}
        assert service["image"] == f"tiergate:{VERSION}"
    for name, service in services.items():
        public = [port for port in service.get("ports", ()) if not port.startswith("127.0.0.1:")]
        assert public == (["8080:8080"] if name == "gateway" else [])


def test_it_waits_for_the_schema_and_the_schema_for_its_database(services: dict[str, Any]) -> None:
    assert services["gateway"]["depends_on"]["migration"] == {"condition": "service_completed_successfully"}
    assert services["migration"]["depends_on"]["postgres"] == {"condition": "service_healthy"}
    assert services["migration"]["command"][:2] == ["db", "upgrade"]


def test_each_image_has_a_version(services: dict[str, Any]) -> None:
    for service in services.values():
        assert re.search(r":v?\d+(\.\d+)*$", service["image"])


def test_monitoring_is_what_deploy_has(services: dict[str, Any]) -> None:
    seen = {source for name in OF_MONITORING for source in mounts(services[name]).values()}
    assert seen == {"../prometheus", "../grafana/provisioning", "../grafana/dashboards"}
