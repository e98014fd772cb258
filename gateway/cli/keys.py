"""`tiergate keys`: keys of the database, made, shown, rotated, blocked and revoked while gateways run.

Exit codes: 0 done or told, 1 not possible, 2 usage, 69 no database, or no store to tell the gateways by, 78 a bad configuration.
"""

import asyncio
import os
import pwd
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec
import msgspec.inspect as mi
from sqlalchemy.exc import SQLAlchemyError

from gateway.cli.check import EXIT_CONFIG, EXIT_UNAVAILABLE
from gateway.cli.table import aligned
from gateway.config import Config, ConfigErrors, load
from gateway.config.kinds import scalar
from gateway.config.scalars import Duration, Instant
from gateway.embedded.child import Unavailable
from gateway.embedded.valkey import url_of_running
from gateway.errors import GatewayError
from gateway.policy.credentials import SECRET_LENGTH_MIN, digest, format_digest, is_secret
from gateway.processes.pepper import pepper_of
from gateway.processes.registry import Registry, open_registry
from gateway.stores.keys import reason
from gateway.stores.minted import USUAL_ENV, Changed, Draft, KeyView, SecretView, Wanted
from gateway.stores.versions import SchemaVersionError

COLUMNS = ("id", "name", "org", "plan", "state", "secrets", "expires", "last used")

Command = TypeVar("Command", bound=Callable[..., Any])
Told = TypeVar("Told")
Ask = Callable[[Registry], Awaitable[Told]]


class Notation(click.ParamType[float]):
    """What the configuration file would write for a time or a duration."""

    def __init__(self, name: str, kind: Any) -> None:
        self.name = name
        self._scalar = scalar(mi.type_info(kind))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if self._scalar is None or isinstance(value, float):
            return float(value)
        try:
            return float(self._scalar.read(value))
        except ValueError:
            self.fail(f"expected {self._scalar.expects}", param, ctx)


class Names(click.ParamType[tuple[str, ...]]):
    """Names, with commas between them."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # noqa: ARG002
        """Return the names."""
        return value if isinstance(value, tuple) else tuple(filter(None, map(str.strip, value.split(","))))


class Definition(click.ParamType[dict[str, Any]]):
    """What the configuration file would say of a key, as JSON, or as `@` and a file of it."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """Return the fields."""
        if isinstance(value, dict):
            return value
        try:
            text = Path(value[1:]).read_bytes() if value.startswith("@") else value
            return msgspec.json.decode(text, type=dict[str, Any])
        except (OSError, msgspec.DecodeError) as error:
            self.fail(f"expected a JSON object, or @ and a file of one: {error}", param, ctx)


def options(command: Command) -> Command:
    """Give a command the options that all of them have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The configuration file."),
    ):
        command = option(command)
    return command


@click.group()
def keys() -> None:
    """Make, show, rotate, block and revoke keys of the database. A KEY is an id, or a name where that is one key's."""


@keys.command()
@click.option("--name", required=True, help="What reports and logs call it.")
@click.option("--org", default="default", help="Whose it is.", show_default=True)
@click.option("--plan", help="Its plan; else its org's.")
@click.option("--expires", type=Notation("time", Instant), help="When it ends: 2027-01-01 or 2027-01-01T12:00:00Z.")
@click.option("--models", type=Names(), help="Patterns of the models that it may use, comma-separated.")
@click.option("--tiers", type=Names(), help="The service tiers that it may name, comma-separated.")
@click.option("--projects", type=Names(), help="Those of its org's projects that it may name, comma-separated.")
@click.option("--ips", type=Names(), help="Addresses and networks that it may come from, comma-separated.")
@click.option("--definition", type=Definition(), default={}, help="All else that the file could say of a key, as JSON or @FILE.")
@click.option("--env", default=USUAL_ENV, help="The word behind tg_ in it.", show_default=True)
@options
@click.pass_obj
def create(environ: dict[str, str], /, path: Path, *, as_json: bool, **asked: Any) -> None:
    """Make a key and print it, this once."""
    lists = {name: value for name in ("models", "tiers", "projects", "ips") if (value := asked.pop(name)) is not None}
    expires_s, own = asked.pop("expires"), asked.pop("definition")
    expires_unix_ms = None if expires_s is None else round(1000 * expires_s)
    draft = Draft(**asked, definition={**own, **lists}, expires_unix_ms=expires_unix_ms)
    made(run(path, environ, lambda registry: registry.keys.create(actor(), draft)), as_json=as_json)


@keys.command("list")
@click.option("--org", help="Of this org alone.")
@click.option("--plan", help="Of this plan alone.")
@click.option("--state", type=click.Choice(["active", "blocked", "expired", "revoked"]), help="In this state alone.")
@click.option("--limit", type=click.IntRange(1), default=1_000, help="At most so many.", show_default=True)
@click.option("--after", help="From behind this id on.")
@options
@click.pass_obj
def list_keys(environ: dict[str, str], /, path: Path, *, as_json: bool, **wanted: Any) -> None:
    """Print keys, never their secrets."""
    found = run(path, environ, lambda registry: registry.keys.many(Wanted(**wanted)))
    click.echo(json_of(found) if as_json else as_table(found))


@keys.command()
@click.argument("key")
@options
@click.pass_obj
def show(environ: dict[str, str], /, path: Path, key: str, *, as_json: bool) -> None:
    """Print all that is kept of a KEY but its secrets."""
    found = run(path, environ, lambda registry: registry.keys.one(key))
    click.echo(json_of(found) if as_json else "\n".join(lines_of(found)))


@keys.command()
@click.argument("key")
@click.option(
    "--overlap", type=Notation("duration", Duration), default="24h", help="How long the secret before is good.", show_default=True
)
@options
@click.pass_obj
def rotate(environ: dict[str, str], /, path: Path, key: str, overlap: float, *, as_json: bool) -> None:
    """Give a KEY a new secret and print it, this once; the one before stays good for a while."""
    made(run(path, environ, lambda registry: registry.keys.rotate(actor(), key, round(1000 * overlap))), as_json=as_json)


@keys.command()
@click.argument("key")
@click.option("--now", is_flag=True, help="End what is under way too.")
@options
@click.pass_obj
def revoke(environ: dict[str, str], /, path: Path, key: str, *, now: bool, as_json: bool) -> None:
    """Let nothing more begin with a KEY, ever."""
    done(run(path, environ, lambda registry: registry.keys.revoke(actor(), key, cuts=now)), as_json=as_json)


@keys.command()
@click.argument("key")
@options
@click.pass_obj
def block(environ: dict[str, str], /, path: Path, key: str, *, as_json: bool) -> None:
    """Let nothing more begin with a KEY until it is unblocked."""
    done(run(path, environ, lambda registry: registry.keys.block(actor(), key)), as_json=as_json)


@keys.command()
@click.argument("key")
@options
@click.pass_obj
def unblock(environ: dict[str, str], /, path: Path, key: str, *, as_json: bool) -> None:
    """Undo a block."""
    done(run(path, environ, lambda registry: registry.keys.unblock(actor(), key)), as_json=as_json)


@keys.command("hash")
@options
@click.pass_obj
def hash_secret(environ: dict[str, str], /, path: Path, *, as_json: bool) -> None:
    """Print the digest by which a file can declare a key, of a secret read from stdin or asked for."""
    is_terminal = sys.stdin.isatty()
    secret = click.prompt("Secret", hide_input=True, err=True) if is_terminal else sys.stdin.readline().rstrip("\r\n")
    if not is_secret(secret):
        end(1, f"a secret is at least {SECRET_LENGTH_MIN} printable ASCII characters without blanks around them")
    config = config_of(path, environ)
    found = format_digest(digest(pepper_of(config, Path(config.state_dir)), secret))
    click.echo(json_of({"digest": found}) if as_json else found)


def run(path: Path, environ: dict[str, str], ask: Ask[Told]) -> Told:
    """Return what the registry says, or end the command with why it cannot."""
    config = config_of(path, environ)
    try:
        return asyncio.run(answered(config, ask))
    except GatewayError as error:
        end(1, error.message)
    except SchemaVersionError as error:
        end(EXIT_UNAVAILABLE, str(error))
    except (SQLAlchemyError, OSError) as error:
        end(EXIT_UNAVAILABLE, f"the database cannot be used: {reason(error)}")


async def answered(config: Config, ask: Ask[Told]) -> Told:
    """Ask."""
    async with open_registry(config, store_of(config)) as registry:
        await registry.tenancy.open()
        return await ask(registry)


def store_of(config: Config) -> str | None:
    """Return where the workers' store is, None where it is embedded and no gateway runs."""
    if not config.redis.embedded:
        return config.redis.url.reveal()
    try:
        url = url_of_running(Path(config.state_dir))
    except Unavailable:
        return None
    return url if Path(url.removeprefix("unix://")).exists() else None


def config_of(path: Path, environ: dict[str, str]) -> Config:
    """Return a configuration, or end the command with every error in the file."""
    try:
        return load(path, environ).config
    except ConfigErrors as errors:
        end(EXIT_CONFIG, *errors.lines)


def end(code: int, *lines: str) -> NoReturn:
    """End the command."""
    for line in lines:
        click.echo(line, err=True)
    sys.exit(code)


def actor() -> str:
    """Return who changes something, for the audit: the system's word for it, not the environment's."""
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"cli:{os.getuid()}"


def made(changed: Changed, *, as_json: bool) -> None:
    """Print a key that was made. That gateways could not be told costs it five seconds at the most, and its other secrets 30."""
    click.echo(json_of({"key": changed.secret, **msgspec.to_builtins(changed.key)}) if as_json else changed.secret)
    if not as_json:
        click.echo(f"This is all that will ever be seen of it. Its id is {changed.key.id}.", err=True)


def done(changed: Changed, *, as_json: bool) -> None:
    """Print what became of a key, and end the command where gateways could not be told."""
    click.echo(json_of(changed.key) if as_json else f"{changed.key.id} is {changed.key.state}")
    if not changed.told:
        end(EXIT_UNAVAILABLE, "done, but the gateways could not be told: they see it within 30 s; say it again to tell them")


def json_of(found: object) -> str:
    """Return JSON for people and programs."""
    return msgspec.json.format(msgspec.json.encode(found)).decode()


def as_table(found: list[KeyView]) -> str:
    """Return keys for a terminal."""
    return aligned([COLUMNS, *map(line_of, found)]) if found else "no keys"


def line_of(key: KeyView) -> tuple[str, ...]:
    """Return one key's line."""
    shown = ", ".join(secret_of(each) for each in key.secrets)
    ends = (time_of(key.expires_unix_ms), time_of(key.last_used_unix_ms))
    return (key.id, key.name, key.org, key.plan or "-", key.state, shown, *ends)


def secret_of(secret: SecretView) -> str:
    """Return what is shown of one secret: one that a rotation has followed, with its end."""
    until = secret.not_after_unix_ms
    return secret.display if until is None else f"{secret.display} until {time_of(until)}"


def lines_of(key: KeyView) -> list[str]:
    """Return all of a key, a line each."""
    fields = dict(zip(COLUMNS, line_of(key), strict=True))
    fields |= {"created": time_of(key.created_unix_ms), "definition": msgspec.json.encode(key.definition).decode()}
    return [f"{name}: {value}" for name, value in fields.items()]


def time_of(unix_ms: int | None) -> str:
    """Return a moment (UTC)."""
    return "-" if unix_ms is None else f"{datetime.fromtimestamp(unix_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
