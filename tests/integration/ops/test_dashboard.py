"""The dashboard's files as they are served, and the figures that they draw."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from hatchling.builders.wheel import WheelBuilder

from gateway.telemetry import families
from gateway.web.join import parse
from gateway.web.live import Drawn, rows
from gateway.web.pages import FILES, TYPES
from tests.browser.vendor import VENDOR, hashes, listed
from tests.integration.ops.admin import ADMIN, OPERATOR, VIEWER, Post, post
from tests.integration.ops.conftest import Serve, View
from tests.valkey import Valkey

SERVED = sorted(path.relative_to(FILES).as_posix() for path in FILES.rglob("*") if path.is_file())
SOURCES = [path for path in FILES.rglob("*") if path.suffix in (".js", ".html", ".css") and VENDOR not in path.parents]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Post]:
    async with post(1, valkey_server, tmp_path_factory.mktemp("dashboard")) as running:
        yield running


of_gate = pytest.mark.asyncio(loop_scope="module")


def test_vendored_files_are_those_that_were_fetched() -> None:
    found = {path.name: path.read_bytes() for path in VENDOR.iterdir() if path.name != "vendor.json"}
    assert hashes(found) == listed().sha256


def test_all_of_it_is_in_the_package() -> None:
    built = {found.distribution_path for found in WheelBuilder(str(FILES.parents[2])).recurse_included_files()}
    assert {f"gateway/web/dashboard/{name}" for name in SERVED} <= built


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_data_is_read_as_markup_and_nothing_is_fetched_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", text.replace("http://www.w3.org/2000/svg", ""))
    if path.suffix == ".html":
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text)


@of_gate
async def test_the_page_is_at_the_root_and_needs_no_token(gate: Post) -> None:
    answer = await gate.ask("GET", "/", token=None)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for reference in re.findall(r'(?:src|href)="(dashboard/[^"]+)"', answer.text):
        assert (await gate.ask("GET", f"/{reference}", token=None)).status_code == 200


@of_gate
@pytest.mark.parametrize("name", SERVED)
async def test_a_file_has_its_type_and_the_policy_of_the_page(gate: Post, name: str) -> None:
    answer = await gate.ask("GET", f"/dashboard/{name}", token=None)
    headers = answer.headers
    assert (answer.status_code, headers["content-type"]) == (200, charset(TYPES[Path(name).suffix]))
    assert answer.content == (FILES / name).read_bytes()
    assert headers["x-content-type-options"] == "nosniff"
    directives = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert {directives.pop(name) for name in ("default-src", "base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert set(directives.values()) == {"'self'"}


@of_gate
async def test_a_file_is_asked_after_and_sent_once(gate: Post) -> None:
    first = await gate.ask("GET", "/dashboard/app.js", token=None)
    assert first.headers["cache-control"] == "no-cache"
    again = await gate.ask("GET", "/dashboard/app.js", token=None, if_none_match=first.headers["etag"])
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = await gate.ask("GET", "/dashboard/app.js", token=None, if_none_match='"other"')
    assert (other.status_code, hashlib.sha256(other.content).digest()) == (200, hashlib.sha256(first.content).digest())


@of_gate
@pytest.mark.parametrize(
    "path",
    [
        *(
            "/dashboard/../pages.py",
            "/dashboard/%2e%2e/pages.py",
            "/dashboard/..%2fpages.py",
            "/dashboard/%2e%2e%2f%2e%2e%2fapp.py",
        ),
        *("/dashboard//etc/passwd", "/dashboard/vendor", "/dashboard/vendor/", "/dashboard/app.js/", "/dashboard/app.js%00"),
        "/dashboard/..%5cpages.py",
    ],
)
async def test_no_path_leads_out(gate: Post, path: str) -> None:
    host, port = re.findall(r"http://([^:/]+):(\d+)", gate.url)[0]
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    status = answer.split(b" ")[1]
    assert status == b"404" or (status == b"200" and answer.endswith((FILES / "app.js").read_bytes())), answer[:300]
    assert b"Litestar" not in answer
    assert b"root:" not in answer


@of_gate
@pytest.mark.parametrize("path", ["/", "/dashboard/app.js", "/admin/live", "/admin/caller"])
@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}], ids=["host", "origin"])
async def test_no_page_of_another_name_gets_it(gate: Post, path: str, headers: dict[str, str]) -> None:
    assert await gate.refused("GET", path, **headers) == (403, "host_not_allowed", None)


@of_gate
@pytest.mark.parametrize(
    ("token", "name", "role"), [(VIEWER, "vera", "viewer"), (OPERATOR, "otto", "operator"), (ADMIN, "admin", "admin")]
)
async def test_everybody_may_look(gate: Post, token: str, name: str, role: str) -> None:
    assert await gate.told("GET", "/admin/caller", token=token) == {"name": name, "role": role}
    async with httpx.AsyncClient(base_url=gate.url, trust_env=False, verify=False) as client:
        headers, [event] = await figures(client, token)
    assert (headers["content-type"].partition(";")[0], headers["x-content-type-options"]) == ("text/event-stream", "nosniff")
    assert "no-store" in headers["cache-control"]
    assert event["series"]["generation"] == [[1.0]]


@of_gate
@pytest.mark.parametrize("path", ["/admin/live", "/admin/caller"])
async def test_nobody_looks_without_a_token(gate: Post, path: str) -> None:
    assert (await gate.refused("GET", path, token=None))[0] == 401
    assert (await gate.refused("GET", path, token="other"))[0] == 401


async def test_without_tokens_this_machine_looks(view: View, serve: Serve) -> None:
    client = await serve("")
    assert (await client.get("/admin/caller")).json() == {"name": "loopback", "role": "admin"}
    _, [event] = await figures(client)
    assert event["workers"] == [False, False]


async def test_a_workers_death_is_seen_and_takes_nothing_away(view: View, serve: Serve) -> None:
    client = await serve("")
    for count, worker in enumerate(view.workers, 2):
        worker.requests = count
        await worker.start()
    seen: list[tuple[list[bool], float]] = []
    async with client.stream("GET", "/admin/live") as answer:
        async for event in events_of(answer):
            seen.append((event["workers"], event["series"]["requests"][0][-1]))
            if len(seen) == 1:
                await view.workers[0].stop()
            elif seen[-1][0] == [False, True]:
                view.workers[0].started, view.workers[0].requests = 2, 1
                await view.workers[0].start()
            elif len(seen) > 2:
                break
    await asyncio.gather(*(worker.stop() for worker in view.workers))
    assert seen == [([True, True], 5.0), ([False, True], 5.0), ([True, True], 6.0)]


async def test_workers_are_asked_once_for_all_who_look(view: View, serve: Serve) -> None:
    client = await serve("")
    found = await asyncio.gather(*(figures(client) for _ in range(5)))
    assert len({event["unix_ms"] for _, [event] in found}) <= 2


async def test_a_stream_that_is_read_does_not_keep_the_port_from_closing(valkey_server: Valkey, tmp_path: Path) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        async with asyncio.timeout(20):
            async with post(1, valkey_server, tmp_path) as gate:
                headers = {"authorization": f"Bearer {ADMIN}"}
                stream = await client.send(client.build_request("GET", f"{gate.url}/admin/live", headers=headers), stream=True)
                assert stream.status_code == 200
        await stream.aclose()


def test_rows_keep_some_labels_and_add_up_the_rest() -> None:
    text = (
        "# HELP tiergate_requests x\n# TYPE tiergate_requests counter\n"
        'tiergate_requests_total{outcome="ok",stream="true",tier="a \\"b\\\\"} 2.0\n'
        'tiergate_requests_total{outcome="ok",stream="false",tier="a \\"b\\\\"} 3.0\n'
        'tiergate_requests_total{outcome="error",stream="false",tier="a"} 0.0\n'
    )
    drawn = Drawn(families.REQUESTS, ("tier", "outcome"))
    assert [*rows(drawn, [parse(text), parse(text)])] == [('a "b\\', "ok", 10.0)]


async def figures(client: httpx.AsyncClient, token: str = "", count: int = 1) -> tuple[httpx.Headers, list[dict[str, Any]]]:
    """Return the first events, and the headers above them."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    found = []
    async with asyncio.timeout(20), client.stream("GET", "/admin/live", headers=headers) as answer:
        assert answer.status_code == 200
        async for event in events_of(answer):
            found.append(event)
            if len(found) == count:
                break
    return answer.headers, found


async def events_of(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.aiter_lines():
        if line.startswith("data:"):
            yield msgspec.json.decode(line.removeprefix("data:"))


def charset(media_type: str) -> str:
    return f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type
