"""The manifests by meaning: that they fit the gateway's own numbers, and that two ways to install are one installation."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import gateway.config.check as config_check
from gateway.config import replicas
from gateway.config.structs.serving import Api, Shutdown
from gateway.embedded.valkey import READY_S
from tests.deploy import rules
from tests.deploy.manifests import (
    CHART,
    K8S,
    SECRETS,
    Manifest,
    charted,
    configuration,
    container,
    for_trying,
    grace_s,
    kustomized,
    manifests,
    of_many,
    one,
    read,
    said,
)
from tests.deploy.tools import ROOT, program

COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())
VERSION = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
USER = 65532


@pytest.fixture(scope="module", params=["base", "overlays/dev", "overlays/prod"])
def rendered(request: Any) -> list[Manifest]:
    return manifests(kustomized(request.param))


@pytest.fixture(scope="module")
def prod() -> list[Manifest]:
    return manifests(kustomized("overlays/prod"))


@pytest.fixture(scope="module")
def dev() -> list[Manifest]:
    return manifests(kustomized("overlays/dev"))


def workloads(objects: list[Manifest]) -> Iterator[Manifest]:
    return (each for each in objects if each["kind"] in ("Deployment", "Job"))


def test_a_pod_is_not_killed_before_its_gateway_has_ended(rendered: list[Manifest]) -> None:
    spec = one(rendered, "Deployment")["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == grace_s(rendered)


def test_a_charts_pod_neither_whatever_the_configuration_says(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    for written in ("shutdown: {delay: 7s, drain: 2h}", "shutdown: {drain: 90s}", "state_dir: /var/lib/tiergate"):
        config.write_text(written)
        objects = manifests(charted("--set-file", f"config={config}", "--set", "preStop=4"))
        spec = one(objects, "Deployment")["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] == grace_s(objects)
    config.write_text("shutdown: {drain: 1500ms}")
    with pytest.raises(RuntimeError, match="'1500ms' is no whole number"):
        charted("--set-file", f"config={config}")


def test_connections_and_drains_last_as_long_as_by_default(prod: list[Manifest]) -> None:
    """Idle ones longer than those of balancers: DEP-04."""
    config = configuration(prod)
    assert (config.api, config.shutdown) == (Api(), Shutdown())


def test_a_rollout_takes_no_gateway_before_another_is_there(prod: list[Manifest]) -> None:
    assert one(prod, "Deployment")["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
    }
    assert one(prod, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    scaling = one(prod, "HorizontalPodAutoscaler")["spec"]
    assert scaling["minReplicas"] == 3
    assert "replicas" not in one(prod, "Deployment")["spec"]
    assert {metric["type"] for metric in scaling["metrics"]} == {"Pods", "Resource"}
    [pods] = [metric["pods"] for metric in scaling["metrics"] if metric["type"] == "Pods"]
    assert int(pods["target"]["averageValue"]) < configuration(prod).limits.inflight


def test_pods_spread_over_zones_and_hosts(prod: list[Manifest]) -> None:
    spec = one(prod, "Deployment")["spec"]["template"]["spec"]
    keys = {each["topologyKey"]: each["whenUnsatisfiable"] for each in spec["topologySpreadConstraints"]}
    assert keys == dict.fromkeys(("topology.kubernetes.io/zone", "kubernetes.io/hostname"), "ScheduleAnyway")


def test_each_probe_asks_what_it_means(rendered: list[Manifest]) -> None:
    gateway = container(one(rendered, "Deployment"))
    asked = {name: gateway[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: (get["path"], get["port"]) for name, get in asked.items()} == {
        "startup": ("/livez", "ops"),
        "liveness": ("/livez", "ops"),
        "readiness": ("/readyz", "ops"),
    }
    startup = gateway["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] > READY_S
    config = configuration(rendered)
    ports = {each["name"]: each["containerPort"] for each in gateway["ports"]}
    assert ports == {"api": config.api.port, "ops": config.ops.port}
    readiness = gateway["readinessProbe"]
    unnoticed_s = readiness["failureThreshold"] * readiness["periodSeconds"] + readiness["timeoutSeconds"]
    assert unnoticed_s <= gateway["lifecycle"]["preStop"]["sleep"]["seconds"]


def test_services_lead_to_gateways_alone(rendered: list[Manifest]) -> None:
    labels = one(rendered, "Deployment")["spec"]["template"]["metadata"]["labels"]
    services = [each["spec"] for each in rendered if each["kind"] == "Service"]
    assert sorted(service["ports"][0]["port"] for service in services) == [8080, 8081]
    for service in services:
        assert service["selector"].items() <= labels.items()
        for job in (each for each in rendered if each["kind"] == "Job"):
            assert not service["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_nothing_runs_with_more_than_it_needs(rendered: list[Manifest]) -> None:
    assert one(rendered, "ServiceAccount")["automountServiceAccountToken"] is False
    for workload in workloads(rendered):
        spec, inside = workload["spec"]["template"]["spec"], container(workload)
        assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
        user = spec["securityContext"]
        assert (user["runAsNonRoot"], user["runAsUser"], user["seccompProfile"]) == (True, USER, {"type": "RuntimeDefault"})
        assert inside["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= inside["resources"].keys()
        mounts = {each["mountPath"] for each in inside["volumeMounts"] if not each.get("readOnly")}
        assert mounts <= {"/tmp", configuration(rendered).state_dir}
        assert "secretKeyRef" not in str(inside)


def test_the_image_and_the_migration_are_this_versions(prod: list[Manifest]) -> None:
    job = one(prod, "Job")
    assert {container(each)["image"] for each in workloads(prod)} == {f"registry.example.com/tiergate:{VERSION}"}
    assert job["metadata"]["name"] == f"tiergate-migration-{VERSION.replace('.', '-')}"
    assert container(job)["args"] == ["db", "upgrade", "--config", "/etc/tiergate/gateway.yaml"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_a_migration_does_not_change_with_the_configuration(prod: list[Manifest]) -> None:
    [config] = [
        each["configMap"]["name"] for each in one(prod, "Job")["spec"]["template"]["spec"]["volumes"] if "configMap" in each
    ]
    assert config == "tiergate-migration"
    gateways = one(prod, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert [each["configMap"]["name"] for each in gateways if "configMap" in each] == [
        one(prod, "ConfigMap", "tiergate-config")["metadata"]["name"]
    ]


def problems(text: str, secrets: dict[str, str]) -> list[str]:
    """Return what the gateway says of a configuration in production."""
    parsed = read(text, secrets)
    found = [*config_check.check(parsed).errors, *replicas.check(parsed, {replicas.VARIABLE: "1"})]
    return [f"{each.where}: {each.message}" for each in found]


def test_the_gateway_takes_the_configurations(prod: list[Manifest], dev: list[Manifest]) -> None:
    for name in ("tiergate-config", "tiergate-migration"):
        text = one(prod, "ConfigMap", name)["data"]["gateway.yaml"]
        assert problems(text, of_many()) == []
        refused = problems(text, for_trying())
        assert sorted(line.partition(":")[0] for line in refused) == ["database.url", "redis.url"]
    parsed = read(one(dev, "ConfigMap")["data"]["gateway.yaml"], for_trying())
    findings = config_check.check(parsed)
    assert (findings.errors, findings.warnings) == ([], [])


def test_production_refuses_what_one_gateway_keeps_for_itself(prod: list[Manifest], dev: list[Manifest]) -> None:
    for workload in workloads(prod):
        assert container(workload)["env"] == [{"name": replicas.VARIABLE, "value": "1"}]
    assert "env" not in container(one(dev, "Deployment"))


def test_the_secrets_are_those_that_the_configuration_names(prod: list[Manifest], dev: list[Manifest]) -> None:
    named = set(re.findall(rf"{SECRETS}([a-z-]+)", one(prod, "ConfigMap", "tiergate-config")["data"]["gateway.yaml"]))
    assert named == for_trying().keys()
    assert one(dev, "Secret")["data"].keys() == named
    page = (ROOT / "deploy" / "README.md").read_text()
    assert {name for name in named if f"`{name}`" not in page} == set()


def test_the_pages_own_overlay_is_one(tmp_path: Path) -> None:
    page = (ROOT / "deploy" / "README.md").read_text()
    [own] = re.findall(r"^```yaml\n(resources: .+?)^```", page, re.MULTILINE | re.DOTALL)
    shutil.copytree(K8S, tmp_path / "deploy" / "k8s")
    place = tmp_path / "own"
    place.mkdir()
    (place / "kustomization.yaml").write_text(own.replace("…", "0" * 64))
    (place / "gateway.yaml").write_text("workers: 3\n")
    objects = manifests(said(program("kubectl"), "kustomize", str(place)))
    assert one(objects, "ConfigMap", "tiergate-config")["data"] == {"gateway.yaml": "workers: 3\n"}
    images = {container(each)["image"] for each in workloads(objects)}
    assert images == {f"registry.yours.example/tiergate@sha256:{64 * '0'}"}
    assert {"ServiceMonitor", "HTTPRoute"} < {each["kind"] for each in objects}
    assert {each["metadata"].get("namespace") for each in objects} == {"tiergate", None}


def test_dev_is_one_gateway_with_a_volume(dev: list[Manifest]) -> None:
    deployment = one(dev, "Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    claim = one(dev, "PersistentVolumeClaim")["metadata"]["name"]
    assert {"name": "state", "persistentVolumeClaim": {"claimName": claim}} in deployment["template"]["spec"]["volumes"]
    assert {"HorizontalPodAutoscaler", "PodDisruptionBudget", "Job"}.isdisjoint(each["kind"] for each in dev)


def test_pods_may_be_reached_and_reach_out_by_what_they_need(prod: list[Manifest]) -> None:
    spec = one(prod, "NetworkPolicy")["spec"]
    for workload in workloads(prod):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    into = {rule["ports"][0]["port"]: rule["from"] for rule in spec["ingress"]}
    assert into == {
        8080: [{"namespaceSelector": {}}],
        8081: [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    }
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {53, 443, 6379, 5432, 4318}
    [providers] = [rule["to"] for rule in spec["egress"] if rule["ports"][0]["port"] == 443]
    assert "169.254.0.0/16" in providers[0]["ipBlock"]["except"]


def test_a_namespace_takes_nothing_less_restricted(prod: list[Manifest], dev: list[Manifest]) -> None:
    for objects in (prod, dev):
        namespace = one(objects, "Namespace")["metadata"]
        assert namespace["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
        assert {each["metadata"].get("namespace", namespace["name"]) for each in objects} == {namespace["name"]}


def test_a_check_that_is_skipped_has_a_reason(prod: list[Manifest], dev: list[Manifest]) -> None:
    annotations = [each["metadata"].get("annotations", {}) for each in (*prod, *dev)]
    skips = [value for each in annotations for name, value in each.items() if name.startswith("checkov.io/skip")]
    assert skips
    for skip in skips:
        check, _, reason = skip.partition("=")
        assert re.fullmatch(r"CKV2?_[A-Z0-9]+_\d+", check)
        assert len(reason.split()) > 5


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_renders_by_itself(name: str) -> None:
    assert manifests(kustomized(f"components/{name}"))


def test_a_route_ends_no_stream() -> None:
    [route] = manifests(kustomized("components/httproute"))
    [rule] = route["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}


def test_monitoring_asks_the_operations_port(prod: list[Manifest]) -> None:
    [monitor] = manifests(kustomized("components/servicemonitor"))
    [endpoint] = monitor["spec"]["endpoints"]
    service = one(prod, "Service", "tiergate-ops")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert (endpoint["port"], endpoint["path"]) == (service["spec"]["ports"][0]["name"], "/metrics")


def test_the_operators_rules_are_prometheus_own(tmp_path: Path) -> None:
    assert rules.OBJECT.read_text() == rules.written(rules.groups()), "`make prometheusrule` writes them"
    own = tmp_path / "rules.yaml"
    own.write_text("groups: [{name: a, rules: [{alert: B, expr: up == 0}]}]\n")
    [written] = manifests(rules.written(rules.groups(own)))
    assert written["spec"] == yaml.safe_load(own.read_text())


def comparable(text: str) -> dict[tuple[str, str], Manifest]:
    """Return objects by kind and name, without what only one of the two ways has.

    kustomize puts a hash of its content behind the name of the configuration, and the chart puts one on the pods; kustomize makes
    the namespace, and helm is told of one (`--create-namespace`).
    """
    found = {}
    text = re.sub(r"\btiergate-config-[a-z0-9]{10}\b", "tiergate-config", text)
    for each in manifests(text):
        if each["kind"] == "Deployment":
            annotations = each["spec"]["template"]["metadata"].pop("annotations", {})
            assert annotations.keys() <= {"checksum/config"}
        if each["kind"] != "Namespace":
            found[each["kind"], each["metadata"]["name"]] = each
    return found


def test_the_chart_installs_what_the_overlay_does() -> None:
    overlay, chart = comparable(kustomized("overlays/prod")), comparable(charted())
    assert overlay.keys() == chart.keys()
    for which, each in overlay.items():
        if which[0] == "ConfigMap":
            assert yaml.safe_load(chart[which]["data"].pop("gateway.yaml")) == yaml.safe_load(each["data"].pop("gateway.yaml"))
        assert chart[which] == each, which


def test_the_charts_configuration_is_the_bases() -> None:
    assert (CHART / "gateway.yaml").read_bytes() == (K8S / "base" / "gateway.yaml").read_bytes()


def test_the_chart_takes_another_name_image_and_configuration(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text("# mine\nworkers: 2\n")
    options = (
        "--set",
        "image.digest=sha256:00,networkPolicy.enabled=false,migration.enabled=false",
        "--set-file",
        f"config={config}",
    )
    text = said(program("helm"), "template", "other", str(CHART), "--namespace", "elsewhere", *options)
    objects = manifests(text)
    assert {each["metadata"]["namespace"] for each in objects} == {"elsewhere"}
    assert all(each["metadata"]["name"].startswith("other") for each in objects)
    assert {"Job", "NetworkPolicy"}.isdisjoint(each["kind"] for each in objects)
    assert container(one(objects, "Deployment", "other"))["image"] == "registry.example.com/tiergate@sha256:00"
    assert one(objects, "ConfigMap", "other")["data"]["gateway.yaml"] == "# mine\nworkers: 2\n"
