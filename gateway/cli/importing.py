"""`tiergate import`: another gateway's configuration, and its keys, as this one's.

Exit codes: 0 imported, 1 with `--strict` something is not exact, 2 usage, 78 a file that cannot be read. Secrets never show in
what is said of the fields; the file that is written has those that theirs has.
"""

import datetime
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from gateway.cli.check import EXIT_CONFIG
from gateway.importing.findings import Finding, Findings
from gateway.importing.known import known_models
from gateway.importing.source import SourceError, read
from gateway.importing.translation import Translation, translate

NOTE_WIDTH = 70
OWNER_ALONE = 0o600


@click.group(name="import")
def importing() -> None:
    """Take over another gateway's configuration and keys."""


@importing.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where the configuration goes. By default to standard output.")
@click.option("--strict", is_flag=True, help="End with 1 when anything is not carried exactly.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of each field as one JSON object.")
def litellm(file: Path, out: Path | None, *, strict: bool, as_json: bool) -> None:
    """Translate FILE, a configuration of LiteLLM's proxy, and say of each field what became of it."""
    try:
        translation = translate(read(file), known_models(), _month_ends(datetime.datetime.now(datetime.UTC).date()))
    except SourceError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_CONFIG)
    text = translation.text()
    if out is not None:
        write(out, text)
    _report(translation, text if out is None else None, as_json=as_json)
    if strict and any(finding.kind != "exact" for finding in translation.findings.all()):
        sys.exit(1)


def write(path: Path, text: str) -> None:
    """Write a file that nobody but its owner may read: it may hold secrets."""
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, OWNER_ALONE)) as file:
        os.fchmod(file.fileno(), OWNER_ALONE)
        file.write(text)


def _month_ends(today: datetime.date) -> str:
    return (today.replace(day=1) + datetime.timedelta(days=32)).replace(day=1).isoformat()


def _report(translation: Translation, text: str | None, *, as_json: bool) -> None:
    findings = translation.findings
    if as_json:
        said: dict[str, Any] = {"findings": findings.all(), **findings.counts()}
        click.echo(msgspec.json.format(msgspec.json.encode(said if text is None else {"config": text, **said})))
        return
    if text is not None:
        click.echo(text, nl=False)
    for line in as_text(findings):
        click.echo(line, err=True)


def as_text(findings: Findings) -> Iterator[str]:
    """Yield a table of what is not exact, what is left out first, and the counts of all."""
    for kind in ("ignored", "approximate"):
        found = [finding for finding in findings.all() if finding.kind == kind]
        if found:
            yield f"{kind}:"
            yield from (line for finding in found for line in _lines(finding))
            yield ""
    yield ", ".join(f"{count} {kind}" for kind, count in findings.counts().items())


def _lines(finding: Finding) -> Iterator[str]:
    yield f"  {finding.where}" + (f" -> {finding.into}" if finding.into else "")
    yield from textwrap.wrap(finding.note, NOTE_WIDTH, initial_indent="      ", subsequent_indent="      ")
