"""`tiergate check`: say all that is wrong with a configuration file, one line a problem, before anything is started.

Exit codes: 0 sound, 78 not, 69 a provider that `--online` could not reach. Secrets never show.
"""

import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click

from gateway.config import Config, ConfigErrors, load
from gateway.config.addresses import endpoint
from gateway.config.restarts import AT_START
from gateway.config.structs.supply import Provider

EXIT_UNAVAILABLE = 69
EXIT_CONFIG = 78

PROBE_TIMEOUT_S = 3.0
"""For the connection and for the TLS handshake each: a provider that needs longer fails its requests too."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Take warnings for errors.")
@click.option("--online", is_flag=True, help="Also connect to each provider. Sends no credential and no request.")
@click.pass_obj
def check(environ: dict[str, str], file: Path, *, strict: bool, online: bool) -> None:
    """Check a configuration FILE and print every problem at once."""
    try:
        loaded = load(file, environ)
    except ConfigErrors as errors:
        _end(EXIT_CONFIG, errors.lines)
    for line in loaded.warnings:
        click.echo(f"warning: {line}", err=True)
    if strict and loaded.warnings:
        sys.exit(EXIT_CONFIG)
    if online and (unreachable := tuple(_unreachable(loaded.config))):
        _end(EXIT_UNAVAILABLE, unreachable)
    click.echo(_summary(loaded.config))


def _end(code: int, lines: tuple[str, ...]) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    sys.exit(code)


def _summary(config: Config) -> str:
    counts = {
        "providers": len(config.providers),
        "models": len(config.models),
        "plans": len(config.plans),
        "orgs": len(config.orgs),
        "keys": len(config.keys),
    }
    listed = ", ".join(f"{count} {name if count != 1 else name.removesuffix('s')}" for name, count in counts.items())
    return f"config ok: {listed}\nchanges of {', '.join(AT_START)} take effect at the next start, all others at once"


def _unreachable(config: Config) -> Iterator[str]:
    for name, provider in config.providers.items():
        try:
            _connect(provider)
        except OSError as error:
            yield f"providers.{name}.base_url: cannot be reached: {error.strerror or type(error).__name__}"


def _connect(provider: Provider) -> None:
    """Open a connection to a provider and close it. Raises OSError, of which TLS failures are a kind."""
    scheme, host, port = endpoint(provider.base_url)
    with socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S) as connection:
        if scheme == "https":
            context = ssl.create_default_context(cafile=provider.ca_file)
            with context.wrap_socket(connection, server_hostname=host):
                return
