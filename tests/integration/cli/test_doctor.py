"""`tiergate doctor` as an operator meets it: over files of a disk, a store, a database and providers that answer or do not."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from redis import Redis

from gateway.cli import tiergate
from gateway.config import load
from gateway.embedded.valkey import Valkey as Embedded
from gateway.processes.desk import open_admission
from gateway.processes.doctor import LATELY_S
from gateway.processes.identity import Identity
from tests.certificates import days_from_now, issue
from tests.fakes.http_server import Call, HttpServer
from tests.integration.load.served import Served, settings
from tests.integration.processes.conditions import until
from tests.valkey import Valkey


def doctor(path: Path, *options: str, **environ: str) -> Result:
    return CliRunner().invoke(tiergate, ["doctor", "--config", str(path), *options], obj=environ)


async def told(path: Path, **environ: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the exit code, and of what was looked at its state and what was found."""
    result = await asyncio.to_thread(doctor, path, "--json", **environ)
    found = msgspec.json.decode(result.stdout)
    return result.exit_code, {each["what"]: (each["state"], each["told"]) for each in found["findings"]}


def configured(directory: Path, base_url: str, **sections: Any) -> Path:
    """Write a configuration that nobody else may read."""
    provider = {"base_url": f"{base_url}/v1", "allow_http": True, "api_key": "sk-of-the-provider"}
    if "redis" in sections:
        sections["keys_pepper"] = "a-pepper-that-is-long-enough"
    own = {"state_dir": str(directory / "state"), "database": {"url": f"sqlite:///{directory}/ledger.db", "single_host": True}}
    path = directory / "gateway.yaml"
    models = {"m": {"deployments": [{"provider": "p", "model": "up"}]}}
    path.write_bytes(msgspec.json.encode({"providers": {"p": provider}, "models": models, **own, **sections}))
    path.chmod(0o600)
    return path


def dated(offset: timedelta) -> Any:
    async def answer(call: Call) -> None:
        assert "authorization" not in dict(call.request.headers)
        call.reply(401, b"{}", [("date", format_datetime(datetime.now(UTC) + offset, usegmt=True))])

    return answer


async def test_where_all_is_well_it_says_so(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(dated(timedelta())) as server:
        path = configured(
            tmp_path, server.base_url, redis={"url": valkey.url}, database={"url": "postgresql://nobody@127.0.0.1:9/x"}
        )
        _, found = await told(path)
        assert found["replicas"][0] == found["redis"][0] == found["redis's clock"][0] == found["files"][0] == "ok"
        assert (found["provider p"][0], found["provider p's clock"][0]) == ("ok", "ok")
        code, found = await told(configured(tmp_path, server.base_url))
    assert (code, found["replicas"][0], found["database"]) == (0, "note", ("ok", "is made at the first start"))


async def test_what_cannot_be_reached_is_a_problem(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    stores: dict[str, Any] = {"redis": {"url": "redis://127.0.0.1:9"}, "database": {"url": "postgresql://nobody@127.0.0.1:9/x"}}
    code, found = await told(configured(tmp_path, nowhere, **stores))
    assert code == 1
    assert {found[what][0] for what in ("redis", "database", "provider p")} == {"problem"}


@pytest.mark.parametrize(("minutes", "word"), [(5, "ahead of"), (-5, "behind")])
async def test_a_providers_clock_that_is_off_is_a_problem(minutes: int, word: str, tmp_path: Path) -> None:
    async with HttpServer(dated(timedelta(minutes=minutes))) as server:
        code, found = await told(configured(tmp_path, server.base_url))
    assert (code, found["provider p's clock"][0], word in found["provider p's clock"][1]) == (1, "problem", True)


async def test_a_store_that_several_cannot_share_is_a_problem_where_there_are_several(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(dated(timedelta())) as server:
        code, found = await told(configured(tmp_path, server.base_url, redis={"url": valkey.url}))
        assert (code, found["replicas"][0], "one host" in found["replicas"][1]) == (0, "note", True)
        _, found = await told(configured(tmp_path, server.base_url, database={"url": "postgresql://nobody@127.0.0.1:9/x"}))
        assert (found["replicas"][0], "embedded" in found["replicas"][1]) == ("problem", True)
        code, found = await told(configured(tmp_path, server.base_url), KUBERNETES_SERVICE_HOST="10.0.0.1")
        assert (code, found["replicas"][0]) == (1, "problem")


async def test_the_gateway_that_runs_is_seen_in_its_store(tmp_path: Path) -> None:
    async with HttpServer(dated(timedelta())) as server:
        written = settings(
            {"p": server.base_url}, {"m": {"deployments": [{"provider": "p", "model": "up"}]}}, tmp_path, workers=2
        )
        async with Served("gateway", written, tmp_path):

            async def ticking() -> dict[str, tuple[str, str]]:
                _, found = await told(tmp_path / "gateway.yaml")
                return found if "; 2 workers use it now" in found["redis"][1] else {}

            found = await until(ticking, within_s=20.0)
    state, text = found["gateways"]
    assert (state, text.startswith(f"1 use the store now: {os.uname().nodename} (")) == ("ok", True)


async def registered(path: Path, url: str, *gateways: Identity) -> None:
    """Have a worker of each of these gateways tick in the store."""
    async with open_admission(load(path, {}).config, url) as admission:
        for gateway in gateways:
            await admission.tick(gateway.worker("w0", 7), ())


EDGE, TWIN, FAR = Identity("edge", "m1", "1"), Identity("edge", "m1", "2"), Identity("far", "m2", "3")


async def test_a_second_gateway_on_an_embedded_store_is_a_problem(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with HttpServer(dated(timedelta())) as server:
        path = configured(tmp_path, server.base_url)
        (tmp_path / "state").mkdir()
        async with Embedded(tmp_path / "state", tmp_path_factory.mktemp("run")) as store:
            await registered(path, store.url, EDGE)
            code, found = await told(path)
            assert (code, found["gateways"]) == (0, ("ok", "1 use the store now: edge (1)"))
            await registered(path, store.url, TWIN)
            code, found = await told(path)
    assert (code, found["gateways"][0]) == (1, "problem")
    assert found["gateways"][1].endswith("and 2 use this one's store now: edge (1), edge (2)")


async def test_gateways_of_two_machines_with_a_file_each_are_a_problem(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(dated(timedelta())) as server:
        path = configured(tmp_path, server.base_url, redis={"url": valkey.url})
        await registered(path, valkey.url, EDGE, TWIN)
        code, found = await told(path)
        assert (code, found["gateways"]) == (0, ("ok", "2 use the store now: edge (1), edge (2)"))
        await registered(path, valkey.url, FAR)
        code, found = await told(path)
        assert (code, found["gateways"][0], "those of 2 use" in found["gateways"][1]) == (1, "problem", True)
        shared = {"redis": {"url": valkey.url}, "database": {"url": "postgresql://nobody@127.0.0.1:9/x"}}
        _, found = await told(configured(tmp_path, server.base_url, **shared))
        assert found["gateways"][0] == "ok"


async def test_a_gateway_that_was_started_anew_is_not_two(valkey: Valkey, tmp_path: Path) -> None:
    async with HttpServer(dated(timedelta())) as server:
        path = configured(tmp_path, server.base_url, redis={"url": valkey.url})
        await registered(path, valkey.url, EDGE, FAR)
        with Redis(unix_socket_path=valkey.socket) as redis:
            redis.zincrby("tg:v1:{c0}:workers", -2000 * LATELY_S, FAR.worker("w0", 7))
        code, found = await told(path)
    assert (code, found["gateways"]) == (0, ("ok", "1 use the store now: edge (1)"))


async def test_files_and_descriptors_are_looked_at(tmp_path: Path) -> None:
    async with HttpServer(dated(timedelta())) as server:
        path = configured(tmp_path, server.base_url, limits={"inflight": 2**40})
        path.chmod(0o604)
        code, found = await told(path)
        assert (code, found["files"], found["descriptors"][0]) == (1, ("note", f"{path} may be read by everybody"), "problem")
        path.chmod(0o602)
        assert (await told(path))[1]["files"] == ("problem", f"{path} may be written by everybody")


async def test_it_is_told_how_long_certificates_are_good_for_and_whose_keys_are_open(tmp_path: Path) -> None:
    old = issue(tmp_path, "old", not_after=days_from_now(3.05))
    new = issue(tmp_path, "new", not_after=days_from_now(60.05))
    async with HttpServer(dated(timedelta())) as server:
        path = configured(tmp_path, server.base_url, api={"tls": old.section}, ops={"tls": new.section})
        code, found = await told(path)
        assert (code, found["files"]) == (0, ("ok", "nobody else may read or write them")), "a certificate is for everybody"
        states = [(found[what][0], found[what][1].partition(" days")[0]) for what in ("api certificate", "ops certificate")]
        assert states == [("note", f"{old.cert} ends in 3.0"), ("ok", f"{new.cert} ends in 60.0")]
        new.key.chmod(0o644)
        assert (await told(path))[1]["files"] == ("note", f"{new.key} may be read by everybody")


def test_what_a_front_has_to_allow_follows_the_file(tmp_path: Path) -> None:
    sections = {"api": {"keep_alive": "20s"}, "limits": {"body": "1MiB"}, "shutdown": {"delay": "1s", "drain": "9s"}}
    path = configured(tmp_path, "http://127.0.0.1:9", **sections)
    settings = {name: each for found in front(path) for name, each in [(found["name"], found["settings"])]}
    assert settings["idle connections to the gateway"]["nginx"] == "keepalive_timeout 10s"
    assert settings["body"]["nginx"] == "client_max_body_size 1048576"
    assert settings["silence"] == {
        "nginx": "proxy_read_timeout 660s",
        "haproxy": "timeout server 660s",
        "envoy": "idle_timeout: 660s",
    }
    assert settings["time to leave"]["kubernetes"] == "terminationGracePeriodSeconds: 40"
    table = doctor(path).stdout
    assert "What stands before the gateway has to allow:" in table
    assert "proxy_read_timeout 660s" in table


def front(path: Path) -> Any:
    return msgspec.json.decode(doctor(path, "--json").stdout)["front"]


def test_a_bad_file_is_no_reason_to_look_further(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text("nothing: true\n")
    assert doctor(path).exit_code == 78
