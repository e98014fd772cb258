"""A real Prometheus that scrapes a gateway every two seconds and follows its rules, between `async with` and its end."""

import asyncio
import contextlib
import re
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.integration.processes.conditions import until

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yaml"

CONFIG = """
global: {{scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: tiergate
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus:
    """What may be asked of one."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=20, trust_env=False, verify=False)

    async def close(self) -> None:
        """Ask nothing more."""
        await self._client.aclose()

    async def ready(self) -> bool:
        """Return whether it answers."""
        with contextlib.suppress(httpx.TransportError):
            return (await self._client.get("/-/ready")).status_code == 200
        return False

    async def scraped(self) -> bool:
        """Return whether the gateway was scraped and its page is a good one. It begins some seconds after it is ready."""
        targets = (await self._client.get("/api/v1/targets")).json()["data"]["activeTargets"]
        assert not any(target["lastError"] for target in targets), targets
        return bool(targets) and all(target["health"] == "up" for target in targets)

    async def ask(self, query: str) -> list[float]:
        """Return the values of a query's answer. Raises ValueError where it is no query."""
        return [float(each["value"][1]) for each in await self._get("/api/v1/query", query=query)]

    async def exemplars(self, query: str, since_unix_s: float) -> list[Mapping[str, Any]]:
        """Return the exemplars of a metric."""
        found = await self._get("/api/v1/query_exemplars", query=query, start=since_unix_s, end=since_unix_s + 3600)
        return [exemplar for series in found for exemplar in series["exemplars"]]

    async def _get(self, path: str, **parameters: Any) -> Any:
        answer = (await self._client.get(path, params=parameters)).json()
        if answer["status"] != "success":
            raise ValueError(f"{parameters}: {answer['error']}")
        data = answer["data"]
        return data["result"] if isinstance(data, dict) else data


def started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Return a process that writes to this log."""
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out)


@contextlib.asynccontextmanager
async def prometheus(program: str, target: str, directory: Path) -> AsyncIterator[Prometheus]:
    """Run one over this target, its files in this directory."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (directory / "prometheus.yaml").write_text(CONFIG.format(target=target))
    (directory / "rules.yaml").write_text(re.sub(r"interval: \d+s", "interval: 1s", RULES.read_text()))
    options = {
        "config.file": directory / "prometheus.yaml",
        "storage.tsdb.path": directory / "tsdb",
        "web.listen-address": address,
        "enable-feature": "exemplar-storage",
    }
    process = started([program, *(f"--{name}={value}" for name, value in options.items())], directory / "prometheus.log")
    found = Prometheus(f"http://{address}")
    try:
        await until(found.ready, within_s=30)
        yield found
    finally:
        await found.close()
        process.terminate()
        await asyncio.to_thread(process.wait, 20)
