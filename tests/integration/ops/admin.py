"""The operations port of gateways that run, and the tokens of its admin API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket
from typing import Any

import httpx

from gateway.config import Config, load
from gateway.policy.credentials import digest, format_digest
from gateway.processes.operations import operations
from gateway.processes.server import Server
from gateway.telemetry.reloads import Standing
from tests.integration.minting import Fleet, fleet
from tests.running import PEPPER
from tests.valkey import Valkey

VIEWER, OPERATOR, ADMIN = (f"secret-token-of-the-{name}" for name in ("viewer", "operator", "admin"))
TOKENS = [
    {"name": "vera", "role": "viewer", "secret": VIEWER},
    {"name": "otto", "role": "operator", "digest": format_digest(digest(PEPPER, OPERATOR))},
]
NAMES = {VIEWER: "vera", OPERATOR: "otto", ADMIN: "admin"}
JSON = {"content-type": "application/json"}


class View:
    """What the supervisor would say."""

    def __init__(self, redis_url: str, path: Path, config: Config) -> None:
        self.redis_url = redis_url
        self.draining = False
        self.config = config
        self.standing = Standing(generation=1, hash="abc", path=str(path), since_unix_ms=1, read_unix_ms=2, findings=("a line",))

    def control_sockets(self) -> list[str]:
        return []


class Post:
    """`fleet` are the gateways, `app` the port's application, `url` where it is."""

    def __init__(self, gateways: Fleet, app: Any, client: httpx.AsyncClient) -> None:
        self.fleet = gateways
        self.app = app
        self.url = str(client.base_url)
        self._client = client

    async def ask(self, method: str, path: str, body: Any = None, *, token: str | None = ADMIN, **headers: str) -> httpx.Response:
        """Ask the admin API with a token; headers have underscores."""
        sent = {} if token is None else {"authorization": f"Bearer {token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "GET":
            answer = await self._client.send(self._client.build_request(method, path, headers=sent), stream=True)
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):  # which has no end
                await answer.aread()
            await answer.aclose()
            return answer
        content = {} if body is None else {"json": body}
        return await self._client.request(method, path, headers={**JSON, **sent}, **content)

    async def told(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Return what an answer says that has to be a good one."""
        answer = await self.ask(method, path, body, **more)
        assert answer.is_success, answer.text
        return answer.json()

    async def refused(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str, str | None]:
        """Return the status, code and param of an answer that has to be a refusal."""
        answer = await self.ask(method, path, body, **more)
        assert answer.is_error, answer.text
        error = answer.json()["error"]
        return answer.status_code, error["code"], error["param"]

    async def acts(self, **sought: str) -> list[tuple[str, str, str]]:
        """Return who did what to whom, the newest first."""
        page = await self.told("GET", "/admin/audit?" + "&".join(f"{name}={value}" for name, value in sought.items()))
        return [(row["actor"], row["action"], row["subject"]) for row in page["data"]]


@asynccontextmanager
async def post(count: int, valkey: Valkey, directory: Path, **sections: Any) -> AsyncIterator[Post]:
    """Run so many gateways, and their operations port."""
    ops: Mapping[str, Any] = {"admin_token": ADMIN, "tokens": TOKENS, **sections.pop("ops", {})}
    database = sections.pop("url", f"sqlite:///{directory / 'tiergate.db'}")
    async with fleet(count, valkey, database, directory, ops=ops, **sections) as gateways:
        path = directory / "w0" / "gateway.yaml"
        loaded = load(path, {})
        async with operations(View(valkey.url, path, loaded.config), loaded.config) as app:
            listener = socket()
            listener.bind(("127.0.0.1", 0))
            server = Server(app)
            await server.open(listener)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            try:
                async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=20) as client:
                    yield Post(gateways, app, client)
            finally:
                await server.close()
