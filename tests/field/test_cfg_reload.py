"""Case CFG-02: a configuration that is read again while it is in use, by a gateway of four workers."""

import asyncio
import copy
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner

from gateway.cli import tiergate
from tests.fakes.http_server import HttpServer
from tests.field.leaving import Holding, Leaving, chat
from tests.integration.processes.conditions import until
from tests.running import SECRET
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKERS = 4
RELOADS = 20
CHEAP, DEAR = {"input": 1, "output": 1}, {"input": 900, "output": 900}
WITHIN_S = 30.0
"""For four workers of a machine that does much else to be on another configuration."""

OTHER = "sk-test-secret-of-another-key"


class Mounted(Leaving):
    """A gateway whose configuration is mounted as orchestrators do it: links to a directory that is swapped as a whole."""

    def __init__(self, upstream: HttpServer, holding: Holding, valkey: Valkey, directory: Path) -> None:
        super().__init__(upstream, valkey, directory, workers=WORKERS)
        self.holding = holding
        self.settings: dict[str, Any] = msgspec.json.decode(self._config.read_bytes())
        self.settings["models"]["m"].update(price=CHEAP, timeouts={"idle": "10m"})
        self.client.timeout = httpx.Timeout(120)
        self.mount = directory / "mount"
        self.mount.mkdir()
        self._versions = itertools.count()
        self.put(msgspec.json.encode(self.settings))
        for name in ("gateway.yaml", "secret"):
            (self.mount / name).symlink_to(f"..data/{name}")
        self._config = self.mount / "gateway.yaml"

    def put(self, text: bytes | None, secret: str = OTHER) -> None:
        """Swap what is mounted; None leaves the file out."""
        version = self.mount / f"..v{next(self._versions)}"
        version.mkdir()
        if text is not None:
            (version / "gateway.yaml").write_bytes(text)
        (version / "secret").write_text(secret)
        link = self.mount / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.mount / "..data")

    def copy(self) -> dict[str, Any]:
        """Return the configuration that it was started with, to be changed."""
        return copy.deepcopy(self.settings)

    async def change(self, settings: dict[str, Any], secret: str = OTHER, *, at_once: bool = False) -> int:
        """Swap the file, and wait until all workers go by the new one, told `at_once` or by itself. Return its generation."""
        before = (await self.ready())["config"]["generation"]
        self.put(msgspec.json.encode(settings), secret)
        if at_once:
            self.signal(signal.SIGHUP)
        return await self.comes_to(before + 1)

    async def comes_to(self, generation: int) -> int:
        """Wait until the supervisor and every worker are on this generation."""

        async def all_are() -> bool:
            said = await self.ready()
            own = [worker["generation"] for worker in said["workers"]]
            return said["config"]["generation"] == generation and own == [generation] * WORKERS

        await until(all_are, within_s=WITHIN_S)
        return generation

    async def ready(self) -> Any:
        return (await self.client.get(f"{self.ops}/readyz")).json()

    async def metric(self, name: str) -> float:
        lines = (await self.client.get(f"{self.ops}/metrics")).text.splitlines()
        return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])

    async def by(self, secret: str, **fields: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {secret}"}
        return await self.client.post(f"{self.url}/v1/chat/completions", json=chat(user="quick", **fields), headers=headers)

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == event]

    async def logs(self, event: str, times: int) -> None:
        async def has() -> bool:
            return len(self.logged(event)) >= times

        await until(has, within_s=WITHIN_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mounted(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mounted]:
    holding, directory = Holding(), tmp_path_factory.mktemp("mounted")
    async with HttpServer(holding) as upstream, Mounted(upstream, holding, valkey_server, directory) as gateway:
        await until(lambda: serves_on_all(gateway), within_s=WITHIN_S)
        yield gateway


async def serves_on_all(gateway: Mounted) -> bool:
    return [worker["state"] for worker in (await gateway.ready())["workers"]] == ["ready"] * WORKERS


@pytest.mark.timeout(240)
async def test_cfg_02_nothing_fails_over_twenty_reloads_and_each_request_keeps_what_it_began_with(mounted: Mounted) -> None:
    assert await mounted.metric("tiergate_config_generation") == 1
    streams = [asyncio.create_task(mounted.ask(stream=True, service_tier="priority")) for _ in range(20)]
    await mounted.holding.holds(20)
    statuses: list[int] = []
    over = asyncio.Event()

    async def asks_on() -> None:
        while not over.is_set():
            statuses.append((await mounted.ask(user="quick")).status_code)

    asking = [asyncio.create_task(asks_on()) for _ in range(4)]
    for number in range(RELOADS):
        settings = mounted.copy()
        settings["models"]["m"].update(price=DEAR, tiers=["default"], max_n=number + 1)
        if number % 5 == 0:
            refused = len(mounted.logged("config_refused"))
            mounted.put(b"models: {m: [}")
            await mounted.logs("config_refused", refused + 1)
        await mounted.change(settings, at_once=number % 2 == 0)
    over.set()
    await asyncio.gather(*asking)
    assert len(statuses) > RELOADS
    assert set(statuses) == {200}
    after = await mounted.ask(user="quick")
    asked_late = await mounted.ask(user="quick", service_tier="priority")
    assert asked_late.headers.get("x-gateway-service-tier") != "priority"
    mounted.holding.go_on.set()
    ends = await asyncio.gather(*streams)
    assert all(answer.text.endswith("data: [DONE]\n\n") and '"service_tier":"priority"' in answer.text for answer in ends)
    rows = await costs(mounted, {after.headers["x-request-id"], *(answer.headers["x-request-id"] for answer in ends)})
    dear = rows.pop(after.headers["x-request-id"])
    assert dear > 100 * max(rows.values()) > 0
    mounted.holding.go_on.clear()


async def costs(mounted: Mounted, wanted: set[str]) -> dict[str, int]:
    """Return what requests cost, once the ledger has all of them."""

    async def found() -> dict[str, int]:
        lines = {line["request_id"]: line["cost_nano_usd"] for line in mounted.requests() if line["request_id"] in wanted}
        return lines if lines.keys() == wanted else {}

    return await until(found)


def unreadable(mounted: Mounted) -> bytes | None:
    return b"models:\n  m: [}\n"


def misspelt(mounted: Mounted) -> bytes | None:
    return msgspec.json.encode({**mounted.settings, "modles": {}})


def without_a_provider_in_use(mounted: Mounted) -> bytes | None:
    return msgspec.json.encode({**mounted.settings, "providers": {}})


def without_a_secret(mounted: Mounted) -> bytes | None:
    keys = [*mounted.settings["keys"], {"name": "lost", "org": "acme", "secret": "${file:/nowhere/at/all}"}]
    return msgspec.json.encode({**mounted.settings, "keys": keys})


def removed(mounted: Mounted) -> bytes | None:
    return None


@pytest.mark.parametrize("text", [unreadable, misspelt, without_a_provider_in_use, without_a_secret, removed])
async def test_cfg_02_a_file_that_cannot_be_used_changes_nothing_and_is_told_of(
    text: Callable[[Mounted], bytes | None], mounted: Mounted
) -> None:
    before = (await mounted.ready())["config"]
    refused = len(mounted.logged("config_refused"))
    mounted.put(text(mounted))
    await mounted.logs("config_refused", refused + 1)
    problem = mounted.logged("config_refused")[refused]["problem"]
    assert problem.startswith(str(mounted.mount / "gateway.yaml"))
    assert await mounted.metric("tiergate_config_last_reload_successful") == 0
    assert (await mounted.ready())["config"] == before
    assert (await mounted.ask(user="quick")).status_code == 200
    changed = mounted.copy()
    changed["models"]["m"]["max_n"] = before["generation"]
    await mounted.change(changed)
    assert await mounted.metric("tiergate_config_last_reload_successful") == 1


async def test_cfg_02_keys_and_models_come_and_go_with_the_file_and_with_mounted_secrets(mounted: Mounted) -> None:
    settings = mounted.copy()
    settings["keys"].append({"name": "other", "org": "acme", "secret": f"${{file:{mounted.mount}/secret}}"})
    settings["models"]["new"] = settings["models"]["m"]
    assert (await mounted.by(OTHER)).status_code == 401
    assert (await mounted.by(SECRET, model="new")).status_code == 404
    generation = await mounted.change(settings)
    assert [(await mounted.by(OTHER, model="new")).status_code for _ in range(8)] == [200] * 8
    mounted.put(msgspec.json.encode(settings), "sk-test-secret-that-was-rotated")
    await mounted.comes_to(generation + 1)
    assert {(await mounted.by(OTHER)).status_code for _ in range(8)} == {401}
    assert {(await mounted.by("sk-test-secret-that-was-rotated")).status_code for _ in range(8)} == {200}
    await mounted.change(mounted.copy())
    assert {(await mounted.by("sk-test-secret-that-was-rotated")).status_code for _ in range(8)} == {401}
    assert (await mounted.by(SECRET, model="new")).status_code == 404


async def test_cfg_02_a_deployment_that_is_taken_out_ends_what_it_has(mounted: Mounted) -> None:
    settings, held = mounted.copy(), mounted.holding.held
    stream = asyncio.create_task(mounted.ask(stream=True))
    await mounted.holding.holds(held + 1)
    settings["models"]["m"]["deployments"] = [{"provider": "p", "model": "another"}]
    await mounted.change(settings)
    assert (await mounted.ask(user="quick")).status_code == 200
    desk = (await mounted.client.get(f"{mounted.ops}/admin/upstreams")).json()
    assert "m/p/another" in [each["deployment"] for each in desk]
    mounted.holding.go_on.set()
    assert (await stream).text.endswith("data: [DONE]\n\n")
    mounted.holding.go_on.clear()


async def test_cfg_02_a_worker_that_starts_again_takes_the_newest_file_that_can_be_used(mounted: Mounted) -> None:
    settings = mounted.copy()
    settings["models"]["late"] = settings["models"]["m"]
    generation = await mounted.change(settings)
    refused = len(mounted.logged("config_refused"))
    mounted.put(b"no: such: thing")
    await mounted.logs("config_refused", refused + 1)
    before = mounted.workers()
    os.kill(before[0], signal.SIGKILL)

    async def is_whole_again() -> bool:
        return len(now := mounted.workers()) == WORKERS and before[0] not in now

    await until(is_whole_again, within_s=WITHIN_S)
    await mounted.comes_to(generation)
    assert {(await mounted.by(SECRET, model="late")).status_code for _ in range(20)} == {200}


async def test_cfg_02_what_needs_a_restart_waits_for_it_and_the_rest_is_taken(mounted: Mounted) -> None:
    settings = mounted.copy()
    settings["leases"] = {"ttl": "40s"}
    settings["models"]["m"]["max_n"] = 77
    await mounted.change(settings)
    assert mounted.logged("config_needs_restart")[-1]["changed"] == ["leases.ttl"]
    assert (await mounted.ask(user="quick", n=77)).status_code == 200


async def test_cfg_02_a_signal_has_the_file_read_and_the_same_again_is_no_other_generation(mounted: Mounted) -> None:
    settings = mounted.copy()
    generation = await mounted.change(settings)
    unchanged = len(mounted.logged("config_unchanged"))
    mounted.signal(signal.SIGHUP)
    await mounted.logs("config_unchanged", unchanged + 1)
    assert (await mounted.ready())["config"]["generation"] == generation
    assert await mounted.metric("tiergate_config_workers_behind") == 0


async def test_cfg_02_a_worker_that_is_not_on_it_is_named_until_it_is(mounted: Mounted) -> None:
    settings = mounted.copy()
    settings["models"]["m"]["max_n"] = 55
    before = (await mounted.ready())["config"]["generation"]
    stopped = mounted.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        mounted.put(msgspec.json.encode(settings))
        await mounted.logs("config_worker_behind", 1)
        assert await mounted.metric("tiergate_config_workers_behind") == 1
        assert await mounted.metric("tiergate_config_last_reload_successful") == 1
        [told] = [line for line in mounted.logged("config_worker_behind") if line["generation"] == before + 1]
        assert (told["worker"] in {"w0", "w1", "w2", "w3"}, told["reason"]) == (True, "ReadTimeout")
    finally:
        os.kill(stopped, signal.SIGCONT)
    await mounted.comes_to(before + 1)

    async def is_told() -> bool:
        return await mounted.metric("tiergate_config_workers_behind") == 0

    await until(is_told, within_s=WITHIN_S)


async def test_cfg_02_what_a_file_would_change_is_told_before_it_is_taken(mounted: Mounted) -> None:
    settings = mounted.copy()
    settings["models"]["m"]["max_n"] = 44
    await mounted.change(settings)
    assert await changes(mounted, settings) == {}
    settings["models"]["m"]["max_n"] = 33
    settings["leases"] = {"ttl": "45s"}
    assert await changes(mounted, settings) == {"models.m.max_n": (44, 33, False), "leases.ttl": ("30s", "45s", True)}
    settings = {**settings, "models": mounted.copy()["models"], "leases": {}}
    settings["models"]["m"]["max_n"] = 44
    settings["keys"][0]["secret"] = "sk-test-secret-that-is-another-one"
    assert list(await changes(mounted, settings)) == ["(a secret)"]


async def changes(mounted: Mounted, settings: dict[str, Any]) -> dict[str, tuple[Any, Any, bool]]:
    """Return what `tiergate config diff` says against the gateway that runs."""
    path = mounted.mount / "next.yaml"
    path.write_bytes(msgspec.json.encode(settings))
    words = ["config", "diff", "--config", str(path), "--url", mounted.ops, "--json"]
    result = await asyncio.to_thread(lambda: CliRunner().invoke(tiergate, words, obj={}))
    found = msgspec.json.decode(result.stdout)
    assert result.exit_code == int(bool(found))
    return {each["path"]: (each["old"], each["new"], each["restart"]) for each in found}
