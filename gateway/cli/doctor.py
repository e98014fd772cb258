"""`tiergate doctor`: what may be wrong around a sound configuration, and what whoever stands before the gateway has to allow.

Exit codes: 0 nothing is, 1 something is, 78 a bad configuration.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from gateway.cli.check import EXIT_CONFIG
from gateway.cli.table import aligned
from gateway.config import ConfigErrors, Files, load
from gateway.config.front import Allowance, allowances
from gateway.processes.doctor import Finding, State, examine


class Report(msgspec.Struct, frozen=True):
    """All that was found."""

    sound: bool
    findings: Sequence[Finding]
    front: Sequence[Allowance]


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def doctor(environ: dict[str, str], /, path: Path, *, as_json: bool) -> None:
    """Look at this machine, the stores and the providers of a configuration, and derive what a front has to allow."""
    files = Files()
    try:
        config = load(path, environ, files).config
    except ConfigErrors as errors:
        for line in errors.lines:
            click.echo(line, err=True)
        sys.exit(EXIT_CONFIG)
    findings = asyncio.run(examine(config, environ, files))
    report = Report(all(each.state is not State.PROBLEM for each in findings), findings, allowances(config))
    click.echo(msgspec.json.format(msgspec.json.encode(report)).decode() if as_json else as_text(report))
    sys.exit(0 if report.sound else 1)


def as_text(report: Report) -> str:
    """Return the report for a terminal."""
    found = aligned([("looked at", "state", "found"), *((each.what, each.state.value, each.told) for each in report.findings)])
    front = [
        (each.name, each.value, "; ".join(f"{name}: {setting}" for name, setting in each.settings.items()))
        for each in report.front
    ]
    return f"{found}\n\nWhat stands before the gateway has to allow:\n\n{aligned([('what', 'how much', 'called'), *front])}"
