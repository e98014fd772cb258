"""`tiergate config`: the whole configuration that a file means, defaults too, and what is not the same in another.

Exit codes: 0 shown or the same, 1 not the same, 2 usage, 69 no gateway that would tell, 78 a bad configuration. No secret shows.
"""

import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import httpx
import msgspec
import yaml

from gateway.cli.check import EXIT_CONFIG, EXIT_UNAVAILABLE
from gateway.cli.keys import end
from gateway.cli.table import aligned
from gateway.config import Config, ConfigErrors, Files, load
from gateway.config.carried import fingerprint
from gateway.config.certificates import Certificates, UnusableError, certificates_of, trusting
from gateway.config.differences import Difference, between, differences
from gateway.config.restarts import waits
from gateway.config.shown import whole
from gateway.processes.pepper import pepper_of

ASK_S = 5.0
"""How long the running gateway may take to tell."""

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  # where a listener is that listens everywhere
SECRETS = Difference("(a secret)", "***", "***")

PATH = click.Path(path_type=Path)


class Running(msgspec.Struct):
    """What a gateway says of its configuration; `hash` is of all of it, secrets too, where it says so."""

    document: dict[str, Any]
    hash: str | None = None


class Change(msgspec.Struct, frozen=True):
    """One field that is not the same; `restart`: a running gateway takes it at its next start alone."""

    path: str
    old: Any
    new: Any
    restart: bool


@click.group()
def config() -> None:
    """Show what a configuration means, and what changes with another one."""


@config.command()
@click.option("--config", "path", type=PATH, required=True, help="The configuration file.")
@click.option("--redact", is_flag=True, help="Hide secrets, as is done without it too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def show(environ: dict[str, str], /, path: Path, *, redact: bool, as_json: bool) -> None:  # noqa: ARG001 - it says what is so
    """Print every field with its value, defaults too."""
    document = whole(loaded(path, environ))
    as_yaml = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    click.echo(formatted(document) if as_json else as_yaml, nl=as_json)


@config.command()
@click.argument("old", type=PATH, required=False)
@click.argument("new", type=PATH, required=False)
@click.option("--config", "path", type=PATH, help="A file, to compare the gateway with that runs by it.")
@click.option("--url", help="The operations port of that gateway, where it is not this machine's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def diff(environ: dict[str, str], /, old: Path | None, new: Path | None, **options: Any) -> None:
    """Print what is not the same in the files OLD and NEW, or in a running gateway and the file of --config."""
    path: Path | None = options["path"]
    if old is not None and new is not None and path is None:
        found: Sequence[Difference] = between(loaded(old, environ), loaded(new, environ))
    elif old is None and path is not None:
        found = since_running(loaded(path, environ), options["url"])
    else:
        raise click.UsageError("give two files, or --config alone")
    changes = [Change(each.path, each.old, each.new, waits(each.path)) for each in found]
    click.echo(formatted(changes) if options["as_json"] else as_table(changes))
    sys.exit(1 if changes else 0)


def loaded(path: Path, environ: dict[str, str]) -> Config:
    """Return what a file says, or end the command with every error in it."""
    try:
        return load(path, environ).config
    except ConfigErrors as errors:
        end(EXIT_CONFIG, *errors.lines)


def since_running(file: Config, url: str | None) -> Sequence[Difference]:
    """Return what the file has that the gateway has not, or end the command where it does not tell."""
    ops = shown_by(file).ops
    scheme = "http" if ops is None else "https"
    place = url or f"{scheme}://{EVERYWHERE.get(file.ops.host, file.ops.host)}:{file.ops.port}"
    # On this machine the certificate is known by itself; elsewhere it has to be for the name, from an authority that is trusted.
    verify = ssl.create_default_context() if url or ops is None else trusting(ops)
    token = file.ops.admin_token
    headers = {"authorization": f"Bearer {token.reveal()}"} if token else {}
    try:
        answer = httpx.get(f"{place}/admin/config", headers=headers, timeout=ASK_S, trust_env=False, verify=verify)
        running = msgspec.json.decode(answer.raise_for_status().content, type=Running)
    except (httpx.HTTPError, msgspec.DecodeError) as error:
        end(EXIT_UNAVAILABLE, f"{place}/admin/config does not tell: {error}")
    found = differences(running.document, msgspec.to_builtins(whole(file)))
    if not found and running.hash not in (None, fingerprint(file, pepper_of(file, Path(file.state_dir)))):
        return (SECRETS,)
    return found


def shown_by(file: Config) -> Certificates:
    """Return what the listeners of a file show, or end the command where that has changed for the worse since it was read."""
    try:
        return certificates_of(file, Files())
    except UnusableError as error:
        end(EXIT_CONFIG, error.problem.describe(""))


def formatted(value: Any) -> str:
    """Return a value as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def as_table(changes: Sequence[Change]) -> str:
    """Return changes for a terminal."""
    if not changes:
        return "the same"
    lines = [(each.path, short(each.old), short(each.new), "restart" if each.restart else "reload") for each in changes]
    return aligned([("path", "old", "new", "takes effect by"), *lines])


def short(value: Any) -> str:
    """Return a value in one line; `-` where there is none."""
    return "-" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
