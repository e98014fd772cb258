"""A gateway under a load that moves every metric: each tier, each kind of refusal, each fault of a provider that can be had."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.http_server import Call, HttpServer, Script
from tests.fakes.openai import BUSY, DONE, SSE, Models, answers, error, event, refuses, silence, streams
from tests.integration.load.served import Served, settings
from tests.integration.processes.conditions import until
from tests.running import SECRET
from tests.valkey import Valkey

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}

USED = {"prompt_tokens": 40, "completion_tokens": 30, "total_tokens": 70, "prompt_tokens_details": {"cached_tokens": 25}}
PRICE = {"input": 1.0, "cached_input": 0.5, "output": 2.0}

STREAM = (event({"role": "assistant"}), event({"content": "Hello"}), event({"content": " there"}), event({}, "stop"))


async def broken(call: Call) -> None:
    """Begin an answer and cut it."""
    call.head(200, SSE, chunked=True)
    call.piece(event({"content": "Hel"}))
    call.reset()


async def held(call: Call) -> None:
    """Answer after a while: who comes meanwhile waits."""
    await asyncio.sleep(0.2)
    await answers(usage=USED)(call)


async def cut(call: Call) -> None:
    """End before there is an answer."""
    call.reset()


async def nonsense(call: Call) -> None:
    """Answer in no protocol."""
    call.write(b"what?\r\n\r\n")
    call.close()


async def endless(call: Call) -> None:
    """Begin an answer and never end it."""
    call.head(200, SSE, chunked=True)
    call.piece(event({"content": "Hello"}))
    await call.gone.wait()


FAULTS: Mapping[str, Script] = {
    "timeout": silence,
    "reset": cut,
    "protocol": nonsense,
    "bad_answer": refuses(200, b"<html>"),
    "server": refuses(500),
    "upstream_timeout": refuses(504),
    "credential": refuses(401, error("no", code="invalid_api_key")),
    "billing": refuses(402, error("pay", code="insufficient_quota")),
    "stale_model": refuses(404, error("The model does not exist", code="model_not_found")),
    "busy": refuses(503, BUSY),
    "account_rate": refuses(429, error("slow down", code="rate_limit_exceeded"), retry_after="0"),
    "rejected": refuses(400, error("no such thing", param="messages")),
}
"""What a model does, by the fault that it is; `connect` and `tls` are providers' own."""

KEYS: Mapping[str, Mapping[str, Any]] = {
    "test": {"plan": "all", "allow_no_limit": True},
    "limited": {"plan": "all", "limits": {"rpm": 1}},
    "tried": {"plan": "all", "limits": {"rpm": 1, "shadow": True}},
    "alone": {"plan": "all", "limits": {"concurrency": 1}},
    "over": {"plan": "over"},
    "poor": {"plan": "all", "org": "poor"},
}

STREAMED = ("timeout", "strange", "broken")

REASONS = (
    "invalid_api_key", "model_not_found", "rate_limit_exceeded", "insufficient_quota", "engine_overloaded", "flex_no_capacity",
    "invalid_json", "missing_required_parameter", "unsupported_media_type", "method_not_allowed", "invalid_value",
)  # fmt: skip
TIERS = ("priority", "default", "no-limit", "over-limit", "flex")
OUTCOMES = ("ok", "cancelled", "interrupted", "upstream_error", "client_error", "timeout", "rejected")


def secret(name: str) -> str:
    """Return a key's secret."""
    return SECRET if name == "test" else f"sk-test-secret-of-{name}-key"


def models() -> dict[str, Any]:
    """Return the models of the configuration."""
    cost = {"input": 0.5, "output": 1.0}
    plain = {"provider": "p", "model": "up-m", "max_concurrency": 32, "cost": cost}
    second = {"provider": "q", "model": "up-m", "max_concurrency": 8, "order": 2}
    first_fails = {"provider": "p", "model": "up-server"}
    found: dict[str, Any] = {
        "m": {"deployments": [plain], "price": PRICE},
        "plain": {"deployments": [plain], "price": PRICE, "tiers": ["default", "flex"]},
        "small": {"deployments": [{"provider": "p", "model": "up-small", "max_concurrency": 1}], "price": PRICE},
        "broken": {"deployments": [{"provider": "p", "model": "up-broken"}], "price": PRICE},
        "strange": {"deployments": [{"provider": "p", "model": "up-strange"}], "price": PRICE},
        "moves": {"deployments": [first_fails, second], "price": PRICE},
        "falls": {"deployments": [first_fails], "price": PRICE, "fallbacks": ["m"]},
        "endless": {"deployments": [{"provider": "p", "model": "up-endless"}], "price": PRICE},
        "mute": {"deployments": [{"provider": "p", "model": "up-mute"}], "price": PRICE},
        "connect": {"deployments": [{"provider": "nowhere", "model": "up-connect"}], "price": PRICE},
        "tls": {"deployments": [{"provider": "bare", "model": "up-tls"}], "price": PRICE},
    }
    for fault in FAULTS:
        found[fault] = {
            "deployments": [{"provider": "p", "model": f"up-{fault}"}],
            "price": PRICE,
            "timeouts": {"first_content": "200ms", "total": "300ms"},
        }
    return found


class Watched(Served):
    """A gateway in processes of its own, and a client of both its ports."""

    def __init__(self, settings: Mapping[str, Any], directory: Path) -> None:
        super().__init__("watched", settings, directory)
        limits = httpx.Limits(max_connections=None)
        self.client = httpx.AsyncClient(timeout=30, trust_env=False, verify=False, limits=limits)

    @property
    def ops(self) -> str:
        """Return where its operations port listens."""
        return str(next(line for line in self.lines() if line["event"] == "started")["ops"])

    async def page(self, accept: str = "text/plain") -> str:
        """Return its metrics."""
        return (await self.client.get(f"http://{self.ops}/metrics", headers={"accept": accept})).text

    async def all_up(self) -> bool:
        """Return whether each worker answers."""
        workers = (await self.client.get(f"http://{self.ops}/readyz")).json()["workers"]
        return all(worker["state"] == "ready" for worker in workers)


class Load:
    """`rounds` goes on until it is cancelled; a round asks for everything once."""

    def __init__(self, gateway: Watched) -> None:
        self._gateway = gateway
        self._client = gateway.client

    async def rounds(self) -> None:
        """Ask, and ask again."""
        while True:
            await asyncio.gather(*(ask() for ask in self._asked()))

    def _asked(self) -> list[Callable[[], Awaitable[object]]]:
        named = [
            lambda tier=tier, stream=stream: self.ask("m", service_tier=tier, stream=stream)
            for tier in ("priority", "default", "flex", "no-limit")
            for stream in (True, False)
        ]
        faults = [
            lambda name=name: self.ask(name, stream=name in STREAMED)
            for name in (*FAULTS, "connect", "tls", "moves", "falls", "strange", "broken")
        ]
        others: list[Callable[[], Awaitable[object]]] = [
            lambda: self.ask("m", stream=True, headers=TRACED),
            lambda: self.ask("plain", service_tier="priority"),
            lambda: self.ask("m", path="/v1/completions", messages=..., prompt="hi"),
            lambda: self.ask("m", key="limited"),
            lambda: self.ask("m", key="tried"),
            lambda: self.ask("m", key="over", service_tier="auto", stream=True),
            lambda: self.ask("m", key="over", service_tier="auto"),
            lambda: self.ask("m", key="poor"),
            self.crowd,
            self.leave,
            *self._refused(),
        ]
        return [*named, *faults, *others]

    def _refused(self) -> list[Callable[[], Awaitable[object]]]:
        url = f"{self._gateway.url}/v1/chat/completions"
        bearer = {"authorization": f"Bearer {SECRET}"}
        json, text = {"content-type": "application/json", **bearer}, {"content-type": "text/plain", **bearer}
        return [
            lambda: self.ask("unheard-of"),
            lambda: self.ask("m", messages=...),
            lambda: self.ask("m", service_tier="over-limit"),
            lambda: self._client.post(url, json={"model": "m"}, headers={"authorization": "Bearer sk-nobody-knows-this-one"}),
            lambda: self._client.post(url, content=b"{", headers=json),
            lambda: self._client.post(url, content=b"x", headers=text),
            lambda: self._client.get(url),
        ]

    async def ask(
        self,
        model: str,
        *,
        key: str = "test",
        path: str = "/v1/chat/completions",
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        """Ask a model for something; whatever the answer is."""
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50, **fields}
        whole = {name: value for name, value in body.items() if value is not ...}
        sent = {"authorization": f"Bearer {secret(key)}", **(headers or {})}
        # A stream that breaks is one of the things that are asked for.
        with contextlib.suppress(httpx.RemoteProtocolError):
            await self._client.post(f"{self._gateway.url}{path}", json=whole, headers=sent)

    async def crowd(self) -> None:
        """Ask more of one model than it has room for: some wait, some are refused."""
        patient = [self.ask("small", service_tier=tier) for tier in ("priority", "default", "default")]
        hurried = [self.ask("small", service_tier=tier, fail_fast=True) for tier in ("default", "flex")]
        alone = [self.ask("small", key="alone") for _ in range(2)]
        await asyncio.gather(*patient, *hurried, *alone)

    async def leave(self) -> None:
        """Leave a stream that has begun, and one that has not."""
        url, headers = f"{self._gateway.url}/v1/chat/completions", {"authorization": f"Bearer {SECRET}"}
        body = {"model": "endless", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        async with self._client.stream("POST", url, json=body, headers=headers) as answer:
            await anext(answer.aiter_raw())
        with contextlib.suppress(httpx.ReadTimeout):
            await self._client.post(url, json={**body, "model": "mute"}, headers=headers, timeout=0.2)


async def plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer whatever comes, in the clear."""
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


@contextlib.asynccontextmanager
async def loaded(directory: Path, **sections: Any) -> AsyncIterator[Watched]:
    """Run a gateway in processes of its own over models that do all this."""
    scripted = Models()
    usual = streams(*STREAM, event({}, choices=[], usage=USED), DONE)

    async def asked(call: Call) -> None:
        await (usual if b'"stream":true' in call.request.body.replace(b" ", b"") else answers(usage=USED))(call)

    strange = streams(event({"content": "a"}), b'data: {"object": "strange"}\n\n', *STREAM[1:], DONE)
    scripted.acts.update(
        {**FAULTS, "m": asked, "small": held, "broken": broken, "strange": strange, "endless": endless, "mute": silence}
    )
    with socket.socket() as closed, Valkey() as valkey:
        closed.bind(("127.0.0.1", 0))
        async with HttpServer(scripted) as server, await asyncio.start_server(plainly, "127.0.0.1", 0) as bare:
            address = server.base_url
            upstreams = {
                "p": address,
                "q": address,
                "nowhere": f"http://127.0.0.1:{closed.getsockname()[1]}",
                "bare": f"https://127.0.0.1:{bare.sockets[0].getsockname()[1]}",
            }
            whole = {
                "plans": {
                    "all": {"tiers": ["priority", "default", "flex"], "models": ["*"]},
                    "over": {"tiers": ["default"], "limits": {"rpm": 1}, "over_limit": {"rpm": 6000}, "models": ["*"]},
                },
                "orgs": {
                    "acme": {"plan": "all", "budget": {"usd": 1000, "period": "month"}},
                    "poor": {"plan": "all", "budget": {"usd": 0.00001, "period": "day"}},
                },
                "keys": [{"name": name, "org": "acme", "secret": secret(name), **rights} for name, rights in KEYS.items()],
                **sections,
            }
            store = {"redis": {"url": valkey.url}, "keys_pepper": "a-pepper-that-is-long-enough"}
            chosen = settings(upstreams, models(), directory, **store, **whole)
            async with Watched(chosen, directory) as gateway:
                await until(gateway.all_up, within_s=30)
                try:
                    yield gateway
                finally:
                    await gateway.client.aclose()
