"""Where the clients play: a real llama.cpp, a demo provider whose models fail, and `tiergate serve` before both."""

import asyncio
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gateway.demo.provider import Provider
from gateway.demo.serving import serving
from tests.compat.scenarios import BUSY, CALLS, FAILING, FLAKY, LATE, NATIVE, SILENT, TEXT, VECTORS, Told
from tests.compat.table import Outcome
from tests.integration.load.served import Served, rows_of, settings
from tests.running import SECRET

ROOT = Path(__file__).parents[2]
LLAMA = ROOT / ".venv-llama" / "bin" / "python"
LONGEST_LOAD_S = 30.0
POOR, PATIENT = "sk-test-secret-of-poor", "sk-test-secret-of-patient"

SOUND = {TEXT: "text", CALLS: "calls", VECTORS: "vectors", NATIVE: "native"}
"""Models that do not fail, and their providers."""

DEMO = {
    FAILING: "demo-500",
    BUSY: "demo-busy",
    FLAKY: "demo-flaky",
    LATE: "demo-slow?first_ms=300&words=3&word_ms=0",
    SILENT: "demo-silent",
}
"""Models of the demo provider."""

FIRST_CONTENT = "300ms"
"""How long the silent model may be silent: for two comments."""

BREAKER = {"failures": 10_000, "ratio": 1.0}
"""Clients fail on purpose, and each has to meet the provider's own fault."""


class Upstream(NamedTuple):
    """The addresses of llama.cpp's servers."""

    text: str
    calls: str
    vectors: str


@asynccontextmanager
async def llama(directory: Path) -> AsyncIterator[Upstream]:
    """Serve the models until the block ends."""
    command = (LLAMA, "-m", "tests.compat.llama.serve", directory)
    with (directory / "llama.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=log, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LONGEST_LOAD_S):
            addresses = (await process.stdout.readline()).decode().split()
        assert addresses, (directory / "llama.log").read_text()
        yield Upstream(*addresses)
    finally:
        process.stdin.close()
        await process.wait()


class Gateway:
    """`tiergate serve` with what it told of its requests."""

    def __init__(self, served: Served, directory: Path) -> None:
        self._served = served
        self._directory = directory

    @property
    def told(self) -> Told:
        """Return what its users know."""
        return Told(url=self._served.url, secret=SECRET, poor=POOR, patient=PATIENT)

    async def stop(self) -> Outcome:
        """Stop it, and return how its books stand: an end for every row, and a row for every answer."""
        code = await self._served.stop()
        rows = await rows_of(self._directory, live=True)
        requests = self._served.requests()
        opened = {line["request_id"] for line in requests if line["opened"]}
        checks = {
            "the gateway ends well": code == 0,
            "no request failed at llama.cpp": not any(
                line["status"] >= 500 and line["model_requested"] in SOUND for line in requests
            ),
            "every request that was let in has a row": {row["request_id"] for row in rows} == opened,
            "every row has its end": await rows_of(self._directory, live=False) == rows,
        }
        passed = tuple(name for name, holds in checks.items() if holds)
        failed = tuple(name for name, holds in checks.items() if not holds)
        return Outcome("ledger", f"{len(requests)} requests, {len(rows)} rows", passed, failed)


def configuration(upstream: Upstream, demo: str, directory: Path) -> Mapping[str, Any]:
    """Return the gateway's configuration."""
    price = {"input": 1.0, "output": 2.0}
    served = {name: (provider, TEXT) for name, provider in SOUND.items()}
    served |= {name: ("demo", behaviour) for name, behaviour in DEMO.items()}
    models: dict[str, dict[str, Any]] = {
        name: {"deployments": [{"provider": provider, "model": model}], "price": price}
        for name, (provider, model) in served.items()
    }
    models[SILENT]["timeouts"] = {"first_content": FIRST_CONTENT}
    addresses = {**upstream._asdict(), "native": upstream.text, "demo": demo.removesuffix("/v1")}
    whole = settings(addresses, models, directory, breaker=BREAKER)
    whole["providers"]["native"] |= {"dialect": "anthropic", "endpoints": ["chat", "messages"]}
    whole["providers"]["vectors"]["endpoints"] = ["embeddings"]
    for name in ("text", "calls"):
        whole["providers"][name]["endpoints"] = [*whole["providers"][name]["endpoints"], "responses"]
    poor = {"name": "poor", "org": "acme", "secret": POOR, "limits": {"tpm": 1}}
    patient = {"name": "patient", "org": "acme", "secret": PATIENT, "keepalive": "100ms"}
    return {**whole, "keys": [*whole["keys"], poor, patient]}


@asynccontextmanager
async def gateway(upstream: Upstream) -> AsyncIterator[Gateway]:
    """Serve a gateway before the upstream until the block ends."""
    with tempfile.TemporaryDirectory(prefix="compat") as name:
        directory = Path(name)
        async with serving(Provider("demo", key="sk-up-demo")) as demo:
            served = Served("compat", configuration(upstream, demo, directory), directory)
            async with served:
                yield Gateway(served, directory)
