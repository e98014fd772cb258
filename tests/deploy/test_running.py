"""The gateways that the overlays start, by their own configurations, commands and environments: probed as the manifests say."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from tests.deploy.manifests import SECRETS, Manifest, container, for_trying, kustomized, manifests, one
from tests.integration.load.served import HERE, Served
from tests.integration.processes.conditions import until
from tests.postgres import Postgres
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

STATE = "/var/lib/tiergate"
MOUNTED = "/etc/tiergate/gateway.yaml"


@pytest.fixture(scope="module")
def dev() -> list[Manifest]:
    return manifests(kustomized("overlays/dev"))


@pytest.fixture(scope="module")
def prod() -> list[Manifest]:
    return manifests(kustomized("overlays/prod"))


def placed(objects: list[Manifest], directory: Path, secrets: Mapping[str, str], *, config: str = "config") -> dict[str, Any]:
    """Return a rendering's configuration with files and ports of a test's own."""
    for name, value in secrets.items():
        (directory / name).write_text(value.replace(STATE, str(directory)))
    text = one(objects, "ConfigMap", f"tiergate-{config}")["data"]["gateway.yaml"]
    found: dict[str, Any] = yaml.safe_load(text.replace(SECRETS, f"{directory}/").replace(STATE, str(directory)))
    return {**found, "api": HERE, "ops": {**found.get("ops", {}), **HERE}}


async def ended(arguments: Sequence[str], settings: Mapping[str, Any], path: Path, **environ: str) -> tuple[int, str]:
    """Run the command of a container with these settings until it ends. Return its exit code and all that it said."""
    await asyncio.to_thread(path.write_text, yaml.safe_dump(settings))
    command = [sys.executable, "-m", "gateway", *(str(path) if word == MOUNTED else word for word in arguments)]
    done = await asyncio.to_thread(
        subprocess.run, command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


class Pod(Served):
    """A gateway, and where its probes are answered."""

    @property
    def ops(self) -> str:
        [started] = [line for line in self.lines() if line["event"] == "started"]
        return f"http://{started['ops'].removeprefix('http://')}"

    async def passes(self, probe: Manifest) -> None:
        """Wait until a probe of the manifest does not fail."""
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=probe["timeoutSeconds"]) as client:

            async def answers() -> bool:
                return (await client.get(f"{self.ops}{probe['httpGet']['path']}")).status_code == 200

            await until(answers, within_s=30.0)

    async def models(self, key: str) -> list[str]:
        """Return what a client may ask for."""
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            answer = await client.get(f"{self.url}/v1/models", headers={"authorization": f"Bearer {key}"})
        return [model["id"] for model in answer.json()["data"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod(dev: list[Manifest], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pod]:
    directory = tmp_path_factory.mktemp("pod")
    async with Pod("pod", placed(dev, directory, for_trying()), directory) as found:
        yield found


async def test_it_is_there_by_its_own_probes_and_serves_the_key_of_the_secret(dev: list[Manifest], pod: Pod) -> None:
    inside = container(one(dev, "Deployment"))
    for name in ("startup", "liveness", "readiness"):
        await pod.passes(inside[f"{name}Probe"])
    assert "llama-3.3-70b" in await pod.models(for_trying()["first-key"])


@pytest.mark.parametrize(
    ("environ", "code", "complaint"),
    [
        ({}, 69, "another gateway runs on state_dir"),
        ({"TIERGATE_REFUSE_EMBEDDED": "1"}, 78, "redis.url: embedded is for one gateway alone"),
    ],
)
async def test_a_second_on_the_same_state_does_not_start(
    environ: dict[str, str], code: int, complaint: str, dev: list[Manifest], pod: Pod, tmp_path: Path
) -> None:
    settings = placed(dev, pod._config.parent, for_trying())
    found, said = await ended(container(one(dev, "Deployment"))["args"], settings, tmp_path / "gateway.yaml", **environ)
    assert (found, complaint in said) == (code, True)


@pytest.mark.timeout(180)
async def test_production_waits_for_its_migration_and_is_then_several(prod: list[Manifest], tmp_path: Path) -> None:
    with Postgres() as postgres, Valkey() as valkey:
        secrets = for_trying() | {"redis-url": valkey.url, "database-url": postgres.create()}
        gateway, migration = container(one(prod, "Deployment")), container(one(prod, "Job"))
        environ = {each["name"]: each["value"] for each in gateway["env"]}
        directories = [tmp_path / name for name in ("one", "two")]
        for directory in directories:
            directory.mkdir()
        settings = [placed(prod, directory, secrets) for directory in directories]
        code, said = await ended(gateway["args"], settings[0], tmp_path / "gateway.yaml", **environ)
        assert (code, "tiergate db upgrade" in said) == (69, True)
        upgrade = placed(prod, tmp_path, secrets, config="migration")
        assert (await ended(migration["args"], upgrade, tmp_path / "migration.yaml", **environ))[0] == 0
        async with AsyncExitStack() as stack:
            for settings_of_one, directory in zip(settings, directories, strict=True):
                pod = await stack.enter_async_context(Pod("pod", settings_of_one, directory))
                await pod.passes(gateway["readinessProbe"])
                assert "llama-3.3-70b" in await pod.models(secrets["first-key"])
