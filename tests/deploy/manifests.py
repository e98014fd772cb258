"""What deploy/ renders to, and the configuration in it as the gateway reads it."""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml

from gateway.config import Config
from gateway.config.parse import Parsed, parse
from gateway.config.references import Sources
from tests.deploy.tools import ROOT, program

K8S = ROOT / "deploy" / "k8s"
CHART = ROOT / "deploy" / "helm" / "tiergate"
SECRETS = "/var/run/secrets/tiergate/"

Manifest = dict[str, Any]


def said(*command: str) -> str:
    """Return what a command prints. Raises RuntimeError, with what it complained of, where it fails."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr}")
    return ended.stdout


def kustomized(folder: str) -> str:
    """Return what a folder of deploy/k8s renders to."""
    return said(program("kubectl"), "kustomize", str(K8S / folder))


def charted(*options: str) -> str:
    """Return what the chart renders to, as a release `tiergate` in the namespace of that name."""
    return said(program("helm"), "template", "tiergate", str(CHART), "--namespace", "tiergate", *options)


def manifests(text: str) -> list[Manifest]:
    """Return the objects of a rendering."""
    return [each for each in yaml.safe_load_all(text) if each is not None]


def one(objects: Sequence[Manifest], kind: str, name: str = "tiergate") -> Manifest:
    """Return the one object of a kind whose name begins so."""
    [found] = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].startswith(name)]
    return found


def container(workload: Manifest) -> Manifest:
    """Return the one container of a Deployment or Job."""
    [found] = workload["spec"]["template"]["spec"]["containers"]
    return dict(found)


def read(text: str, secrets: Mapping[str, str]) -> Parsed:
    """Return a configuration whose secrets are these files. A file that is not among them cannot be read."""

    def content(path: str) -> bytes:
        name = path.removeprefix(SECRETS)
        if name == path or name not in secrets:
            raise FileNotFoundError(path)
        return secrets[name].encode()

    return parse(text.encode(), Sources({}, content))


def for_trying() -> dict[str, str]:
    """Return the secrets of the dev overlay."""
    lines = (K8S / "overlays" / "dev" / "secrets.env").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def of_many() -> dict[str, str]:
    """Return secrets as production has them: stores that are elsewhere."""
    return for_trying() | {"redis-url": "rediss://:a-secret-word@redis:6379", "database-url": "postgresql://tiergate@db/tiergate"}


def configuration(objects: Sequence[Manifest]) -> Config:
    """Return the configuration of the gateways that a rendering starts."""
    return read(one(objects, "ConfigMap", "tiergate-config")["data"]["gateway.yaml"], of_many()).config


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """How the pods of a rendering are replaced: so many more at a time, and what each has until it is killed."""

    replicas: int
    surge: int
    pre_stop_s: float
    delay_s: float
    drain_s: float
    grace_s: float


def leaving(objects: Sequence[Manifest]) -> Leaving:
    """Return a rendering's own numbers."""
    deployment, shutdown = one(objects, "Deployment"), configuration(objects).shutdown
    return Leaving(
        replicas=one(objects, "HorizontalPodAutoscaler")["spec"]["minReplicas"],
        surge=deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"],
        pre_stop_s=container(deployment)["lifecycle"]["preStop"]["sleep"]["seconds"],
        delay_s=shutdown.delay_s,
        drain_s=shutdown.drain_s,
        grace_s=deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
    )


def grace_s(objects: Sequence[Manifest]) -> float:
    """Return what a pod of a rendering needs to leave: endpoints taken back, the gateway's own times, and thirty seconds."""
    shutdown = configuration(objects).shutdown
    pre_stop_s: float = container(one(objects, "Deployment"))["lifecycle"]["preStop"]["sleep"]["seconds"]
    return pre_stop_s + shutdown.delay_s + shutdown.drain_s + 30
