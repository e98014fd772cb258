"""`tiergate demo` as a person meets it: one command, and every line that it prints does what it says."""

import asyncio
import os
import re
import shlex
import signal
import socket
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from gateway.cli.demo import CONFIG
from tests.certificates import issue
from tests.integration.processes.conditions import until, until_gone
from tests.integration.processes.gateways import children

READY_WITHIN_S = 30.0
"""A machine that runs other tests at the same time is slow; a quiet one needs less than three."""


async def start(place: Path, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "demo", *arguments, cwd=place, stdout=PIPE, stderr=PIPE, start_new_session=True
    )


@asynccontextmanager
async def demo(place: Path, *arguments: str) -> AsyncIterator[tuple[Process, list[str]]]:
    """Run the demo; the value is the process and the commands that it printed."""
    process = await start(place, "--port", "0", "--ops-port", "0", *arguments)
    assert process.stdout is not None
    try:
        lines: list[str] = []
        async with asyncio.timeout(READY_WITHIN_S):
            while "/admin/usage" not in "".join(lines):
                lines.append((await process.stdout.readline()).decode())
                assert lines[-1], (await process.communicate())[1].decode()
        yield process, [line.strip() for line in lines if line.startswith("curl ")]
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def refused(place: Path, *arguments: str) -> tuple[int | None, str]:
    """Return the exit code and the one line of a demo that cannot start."""
    process = await start(place, *arguments)
    _, stderr = await process.communicate()
    [line] = stderr.decode().splitlines()
    return process.returncode, line


async def run(command: str) -> httpx.Response:
    """Send what a printed command would send."""
    words = [word for word in shlex.split(command)[1:] if word not in ("-s", "-i", "-N")]
    trusted = ssl.create_default_context()
    if words[0] == "--cacert":
        trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as curl has it
        trusted.load_verify_locations(words[1])
        del words[:2]
    url, *rest = words
    options = list(zip(rest[::2], rest[1::2], strict=True))
    headers = dict(value.split(": ", 1) for name, value in options if name == "-H")
    body = next((value for name, value in options if name == "-d"), None)
    async with httpx.AsyncClient(timeout=20.0, verify=trusted) as client:
        return await client.request("POST" if body else "GET", url, headers=headers, content=body)


def written(place: Path) -> list[str]:
    return [path.name for path in place.iterdir()]


async def test_every_printed_command_does_what_it_says(tmp_path: Path) -> None:
    async with demo(tmp_path) as (process, commands):
        answer, stream, fallback, limited, usage = commands

        said = await run(answer)
        assert said.status_code == 200
        assert said.json()["choices"][0]["message"]["content"].startswith("demo-fast at ")

        assert (await run(stream)).text.endswith("data: [DONE]\n\n")

        walked = await run(fallback)
        assert walked.json()["model"] == "demo-fast"
        assert walked.headers["x-gateway-attempts"] == "demo-busy;429, demo-fast;200"

        assert [(await run(limited)).status_code for _ in range(2)] == [200, 429]

        async def all_used() -> bool:
            return [row["outcome"] for row in (await run(usage)).json()] == ["ok"] * 4

        await until(all_used)

        code, complaint = await refused(tmp_path, "--port", "0", "--ops-port", "0")
        assert code == 69
        assert complaint.startswith(f"another gateway runs on state_dir '{tmp_path}/var/demo'")

        members = [process.pid, *(pid for pid, _ in children(process.pid))]
        assert len(members) == 5
        os.killpg(process.pid, signal.SIGINT)
        assert await process.wait() == 0
        await until_gone(members)
    assert written(tmp_path) == ["var"]
    assert written(tmp_path / "var") == ["demo"]


async def test_over_tls_the_printed_commands_do_it_too(tmp_path: Path) -> None:
    pems = issue(tmp_path)
    tls = f"tls: {{cert: {pems.cert}, key: {pems.key}}}"
    path = tmp_path / "demo.yaml"
    path.write_text(re.sub("port: (8080|8081)", rf"port: \1, {tls}", CONFIG.read_text()))
    async with demo(tmp_path, "--config", str(path)) as (_, commands):
        answer, _, _, _, usage = commands
        assert (await run(answer)).status_code == 200
        assert (await run(usage)).status_code == 200


async def test_a_killed_demo_leaves_nothing_alive(tmp_path: Path) -> None:
    async with demo(tmp_path) as (process, _):
        members = [process.pid, *(pid for pid, _ in children(process.pid))]
        process.kill()
        await until_gone(members, within_s=5.0)


async def test_a_taken_port_is_one_line_and_exit_69(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, complaint = await refused(tmp_path, "--port", str(port), "--ops-port", "0")
    assert code == 69
    assert complaint == f"cannot listen on 127.0.0.1:{port} for api: address already in use"
