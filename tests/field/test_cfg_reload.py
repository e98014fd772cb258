"""Case CFG-02: a configuration that is read again while it is in use.

More workers, more reloads, and workers that are killed or stopped meanwhile are in `tests/integration/load/test_reloads.py`.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner

from gateway.cli import tiergate
from tests.integration.load.mounted import (
    DEAR,
    OTHER,
    Mounted,
    assert_kept_what_they_began_with,
    holds_on,
    mounted_gateway,
)
from tests.running import SECRET
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKERS = 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mounted(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mounted]:
    async with mounted_gateway(valkey_server, tmp_path_factory.mktemp("mounted"), WORKERS) as found:
        yield found


async def test_cfg_02_each_request_keeps_what_it_began_with(mounted: Mounted) -> None:
    streams = await holds_on(mounted, 20)
    settings = mounted.copy()
    settings["models"]["m"].update(price=DEAR, tiers=["default"])
    await mounted.change(settings)
    await mounted.refuses(b"models: {m: [}")
    await assert_kept_what_they_began_with(mounted, streams)


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
    told = await mounted.refuses(text(mounted))
    assert told["problem"].startswith(str(mounted.mount / "gateway.yaml"))
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
    mounted.signal(signal.SIGHUP)
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
