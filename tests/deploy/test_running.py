"""The gateway that the dev overlay starts: by its own configuration and secrets, probed as its manifest says, and never twice."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from tests.deploy.manifests import SECRETS, Manifest, container, for_trying, kustomized, manifests, one
from tests.integration.load.served import HERE, Served
from tests.integration.processes.conditions import until

STATE = "/var/lib/tiergate"


@pytest.fixture(scope="module")
def objects() -> list[Manifest]:
    return manifests(kustomized("overlays/dev"))


def placed(objects: list[Manifest], directory: Path, *, state: str = "state") -> dict[str, Any]:
    """Return the overlay's configuration with files and ports of a test's own."""
    folder = directory / state
    folder.mkdir(exist_ok=True)
    for name, value in for_trying().items():
        (folder / name).write_text(value.replace(STATE, str(folder)))
    text = one(objects, "ConfigMap")["data"]["gateway.yaml"].replace(SECRETS, f"{folder}/").replace(STATE, str(folder))
    return {**yaml.safe_load(text), "api": HERE, "ops": {**HERE, "admin_token": f"${{file:{folder}/admin-token}}"}}


class Pod(Served):
    """A gateway, and where its probes are answered."""

    @property
    def ops(self) -> str:
        [started] = [line for line in self.lines() if line["event"] == "started"]
        return f"http://{started['ops'].removeprefix('http://')}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod(objects: list[Manifest], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pod]:
    directory = tmp_path_factory.mktemp("pod")
    async with Pod("pod", placed(objects, directory), directory) as found:
        yield found


@pytest.mark.asyncio(loop_scope="module")
async def test_it_is_there_by_its_own_probes_and_serves_the_key_of_the_secret(objects: list[Manifest], pod: Pod) -> None:
    inside = container(one(objects, "Deployment"))
    async with httpx.AsyncClient(trust_env=False) as client:
        for name in ("startup", "liveness", "readiness"):
            probe = inside[f"{name}Probe"]
            path, timeout_s = probe["httpGet"]["path"], probe["timeoutSeconds"]

            async def passes(path: str = path, timeout_s: float = timeout_s) -> bool:
                return (await client.get(f"{pod.ops}{path}", timeout=timeout_s)).status_code == 200

            await until(passes, within_s=30.0)
        models = await client.get(f"{pod.url}/v1/models", headers={"authorization": f"Bearer {for_trying()['first-key']}"})
    assert models.json()["data"][0]["id"] == "llama-3.3-70b"


@pytest.mark.parametrize(
    ("environ", "code", "complaint"),
    [
        ({}, 69, "another gateway runs on state_dir"),
        ({"TIERGATE_REFUSE_EMBEDDED": "1"}, 78, "redis.url: embedded is for one gateway alone"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_second_on_the_same_state_does_not_start(
    environ: dict[str, str], code: int, complaint: str, objects: list[Manifest], pod: Pod, tmp_path: Path
) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(yaml.safe_dump(placed(objects, pod._config.parent)))
    command = [sys.executable, "-m", "gateway", "serve", "--config", str(config)]
    ended = await asyncio.to_thread(
        subprocess.run, command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == code
    assert complaint in ended.stderr
