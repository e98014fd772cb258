"""`tiergate demo`: the gateway with two demo providers on this machine, and what to paste into a shell once it is ready.

Nothing is written outside `state_dir`. The keys are new at every start.
"""

import asyncio
import contextlib
import secrets
import shlex
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from socket import socket
from typing import Any

import click
import msgspec

import gateway.demo
from gateway.cli.serve import PORT, run, supervisor_of
from gateway.config.certificates import trusting
from gateway.config.structs.serving import Tls
from gateway.demo.children import children
from gateway.demo.serving import base_url, listener
from gateway.processes.overrides import Overrides
from gateway.processes.source import Source
from gateway.processes.supervisor import Supervisor
from gateway.tasks import Owned

CONFIG = Path(gateway.demo.__file__).with_name("demo.yaml")
POLL_S = 0.02


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The secrets of one demo: the providers', a client's, and a client's that may ask once a minute."""

    provider: str
    client: str
    single: str


@click.command()
@click.option(
    "--config", "path", type=click.Path(path_type=Path), default=CONFIG, help="The configuration, over the shipped one."
)
@click.option("--port", type=PORT, help="Port of the API (8080).")
@click.option("--ops-port", type=PORT, help="Port of operations (8081).")
@click.pass_obj
def demo(environ: dict[str, str], /, path: Path, **ports: Any) -> None:
    """Run the gateway with demo providers and print what to try."""
    keys = Keys(provider=new_key(), client=new_key(), single=new_key())
    with listener() as north, listener() as south:
        listeners = {"north": north, "south": south}
        source = Source(path=path, environ={**environ, **variables(listeners, keys)})
        supervisor = supervisor_of(source, Overrides(**ports))
        sys.exit(run(live(supervisor, listeners, keys)))


def new_key() -> str:
    """Return a key that nobody else has."""
    return f"demo-{secrets.token_hex(12)}"


def variables(listeners: Mapping[str, socket], keys: Keys) -> dict[str, str]:
    """Return what the shipped configuration asks of the environment."""
    return {
        "DEMO_PROVIDER_KEY": keys.provider,
        "DEMO_KEY": keys.client,
        "DEMO_SINGLE_KEY": keys.single,
        **{f"DEMO_{name.upper()}_URL": base_url(sock) for name, sock in listeners.items()},
    }


async def live(supervisor: Supervisor, listeners: Mapping[str, socket], keys: Keys) -> int:
    """Run everything, and print the tour when the first request would be served."""
    async with children(listeners, keys.provider):
        announcing = Owned().spawn(announce(supervisor, keys), name="announce")
        try:
            return await supervisor.run()
        finally:
            announcing.cancel()


async def announce(supervisor: Supervisor, keys: Keys) -> None:
    """Wait for readiness, then print the tour."""
    at = await supervisor.addresses()
    tls = None if at.shown.ops is None else trusting(at.shown.ops)
    ready = False
    while not ready:
        await asyncio.sleep(POLL_S)
        ready = await is_ready(at.ops, tls)
    config = supervisor.config
    click.echo(tour(place_of(at.api, config.api.tls), place_of(at.ops, config.ops.tls), keys))


class Place(msgspec.Struct, frozen=True):
    """Where a listener is, and what curl needs to trust it."""

    url: str
    flags: tuple[str, ...] = ()


def place_of(address: str, tls: Tls | None) -> Place:
    """Return where a listener is that has this address."""
    return Place(f"http://{address}") if tls is None else Place(f"https://{address}", ("--cacert", tls.cert))


async def is_ready(ops_address: str, tls: ssl.SSLContext | None) -> bool:
    """Return whether the operations port says that requests are served."""
    host, _, port = ops_address.rpartition(":")
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        status_line = await reader.readline()
        writer.close()
        return b" 200 " in status_line
    return False


def tour(api: Place, ops: Place, keys: Keys) -> str:
    """Return what to try, each as one command for a shell."""
    hello = [{"role": "user", "content": "Hello"}]
    chat = Place(f"{api.url}/v1/chat/completions", api.flags)
    fallback = {"models": ["demo-busy", "demo-fast"], "messages": hello}
    steps = {
        "An answer": ask(chat, keys.client, {"model": "demo-fast", "messages": hello}),
        "A stream": ask(chat, keys.client, {"model": "demo-slow", "messages": hello, "stream": True}, "-N"),
        "A fallback: the first model is busy, the second answers": ask(chat, keys.client, fallback, "-i"),
        "A limit: this key may ask once a minute, so the second time is 429": ask(
            chat, keys.single, {"model": "demo-fast", "messages": hello}, "-i"
        ),
        "What was used": shlex.join(["curl", "-s", *ops.flags, f"{ops.url}/admin/usage?by=request&limit=10"]),
    }
    shown = "\n\n".join(f"# {title}\n{command}" for title, command in steps.items())
    return f"\nTiergate is ready: the API at {api.url}/v1, the dashboard at {ops.url}. Ctrl-C ends it.\n\n{shown}\n"


def ask(place: Place, key: str, body: dict[str, Any], *flags: str) -> str:
    """Return a request as one curl command."""
    headers = ["-H", f"authorization: Bearer {key}", "-H", "content-type: application/json"]
    return shlex.join(["curl", "-s", *place.flags, *flags, place.url, *headers, "-d", msgspec.json.encode(body).decode()])
