"""`tiergate serve`: run the gateway until it is told to stop.

Exit codes: 0 after a whole drain, 1 where a worker had to be killed, 69 for what cannot be had, 78 for a bad file, 128 and the
signal's number when cut short.
"""

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from gateway.cli.check import EXIT_CONFIG, EXIT_UNAVAILABLE
from gateway.config import ConfigErrors, load
from gateway.embedded.child import Unavailable
from gateway.processes.overrides import Overrides
from gateway.processes.source import Source
from gateway.processes.supervisor import Supervisor

PORT = click.IntRange(0, 65_535)


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The configuration file.")
@click.option("--host", help="Address of the API, over the file's.")
@click.option("--port", type=PORT, help="Port of the API, over the file's.")
@click.option("--ops-port", type=PORT, help="Port of operations, over the file's.")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes that serve, over the file's.")
@click.pass_obj
def serve(environ: dict[str, str], /, path: Path, **settings: Any) -> None:
    """Run the gateway."""
    supervisor = supervisor_of(Source(path=path, environ=environ), Overrides(**settings))
    sys.exit(run(supervisor.run()))


def run(life: Coroutine[Any, Any, int]) -> int:
    """Return the exit code of a life, or that of something it could not have or begin with."""
    try:
        return asyncio.run(life)
    except Unavailable as error:
        click.echo(error, err=True)
        return EXIT_UNAVAILABLE
    except ConfigErrors as error:
        click.echo(error, err=True)
        return EXIT_CONFIG


def supervisor_of(source: Source, overrides: Overrides) -> Supervisor:
    """Return what runs this configuration, or end the command with every error in it."""
    try:
        loaded = load(source.path, source.environ, source.files)
    except ConfigErrors as errors:
        for line in errors.lines:
            click.echo(line, err=True)
        sys.exit(EXIT_CONFIG)
    for line in loaded.warnings:
        click.echo(f"warning: {line}", err=True)
    return Supervisor(overrides.over(loaded.config), replace(source, overrides=overrides, findings=loaded.warnings))
