"""`tiergate upstreams`: how deployments are doing, and the operator's word on them, in the store that the gateways use.

A word has its row in the audit, as one by the admin API has. Without a database it holds all the same, and the lack is said.

Exit codes: 0 told or done, recorded or not, 1 no such deployment, 2 usage, 69 no store, 78 a bad configuration.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from gateway.admission.connection import AdmissionUnavailable
from gateway.cli.check import EXIT_UNAVAILABLE
from gateway.cli.keys import actor, config_of, end
from gateway.cli.table import aligned
from gateway.config import Config
from gateway.embedded.child import Unavailable
from gateway.embedded.valkey import url_of_running
from gateway.errors import InvalidValue
from gateway.policy.admission import Word
from gateway.policy.standing import Standing
from gateway.processes.desk import open_desk
from gateway.processes.registry import open_registry
from gateway.stores.audit import Act, Sought, ordered
from gateway.stores.keys import AWAY, reason

COLUMNS = ("deployment", "state", "cooling until", "slots", "breaker", "failures in a row")
OF_SEVERAL = "credentials"
"""A column more where a deployment has more than one."""

Standings = Sequence[Standing]
Command = TypeVar("Command", bound=Callable[..., Any])


def options(command: Command) -> Command:
    """Give a command the options that all of them have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON array."),
        click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The configuration file."),
    ):
        command = option(command)
    return command


@click.group()
def upstreams() -> None:
    """See how deployments are doing; take them out of service and back."""


@upstreams.command("list")
@click.argument("deployments", nargs=-1)
@options
@click.pass_obj
def list_upstreams(environ: dict[str, str], /, path: Path, deployments: tuple[str, ...], *, as_json: bool) -> None:
    """Print how these DEPLOYMENTS are doing, or all."""
    tell(path, environ, None, deployments, as_json=as_json)


def saying(word: Word, does: str) -> click.Command:
    """Return the command that says a word."""

    @click.command(word.value, help=does)
    @click.argument("deployments", nargs=-1, required=True)
    @options
    @click.pass_obj
    def say(environ: dict[str, str], /, path: Path, deployments: tuple[str, ...], *, as_json: bool) -> None:
        tell(path, environ, word, deployments, as_json=as_json)

    return say


for each, does in (
    (Word.DISABLE, "Ask DEPLOYMENTS no more until they are enabled again; requests under way go on."),
    (Word.ENABLE, "Ask DEPLOYMENTS again."),
    (Word.RESET, "Forget cooldown, lowered ceiling and breaker of DEPLOYMENTS; what is disabled stays so."),
):
    upstreams.add_command(saying(each, does))


def tell(path: Path, environ: dict[str, str], word: Word | None, deployments: Sequence[str], *, as_json: bool) -> None:
    """Say the word, if there is one, and print how the deployments are doing, or end the command with why it cannot."""
    try:
        found, gap = asyncio.run(answered(config_of(path, environ), word, deployments))
    except InvalidValue as error:
        end(1, error.message)
    except (AdmissionUnavailable, Unavailable) as error:
        end(EXIT_UNAVAILABLE, str(error))
    click.echo(msgspec.json.format(msgspec.json.encode(found)).decode() if as_json else as_table(found))
    if gap is not None:
        click.echo(f"done, but not recorded in the audit: {gap}", err=True)


async def answered(config: Config, word: Word | None, deployments: Sequence[str]) -> tuple[Standings, str | None]:
    """Return what the store says, and why the word is not in the audit, None where it is."""
    redis = config.redis
    url = url_of_running(Path(config.state_dir)) if redis.embedded else redis.url.reveal()
    async with open_desk(config, url) as desk:
        if word is None:
            return await desk.standings(deployments), None
        return await recorded(config, ordered(actor(), word.value, deployments), partial(desk.say, word, deployments))


async def recorded(config: Config, act: Act, work: Callable[[], Awaitable[Standings]]) -> tuple[Standings, str | None]:
    """Do the work with its row in the audit, or without: then it may be done twice, which is as if it were done once."""
    try:
        async with open_registry(config, None) as registry:
            await registry.tenancy.audit(Sought(limit=1))  # a database that is not there, or not ours yet, is not made for this
            return await registry.tenancy.beside(act, work), None
    except AWAY as error:
        return await work(), reason(error)


def as_table(standings: Sequence[Standing]) -> str:
    """Return the standings for a terminal."""
    lines = [COLUMNS, *map(line_of, standings)]
    if any(len(each.credentials) > 1 for each in standings):
        lines = [(*line, told) for line, told in zip(lines, [OF_SEVERAL, *map(credentials_of, standings)], strict=True)]
    return aligned(lines)


def line_of(standing: Standing) -> tuple[str, ...]:
    """Return one deployment's line."""
    return (
        standing.deployment,
        standing.state,
        time_of(standing.cooling_until),
        slots_of(standing),
        standing.breaker if standing.breaker_open_until is None else f"open until {time_of(standing.breaker_open_until)}",
        str(standing.failures),
    )


def credentials_of(standing: Standing) -> str:
    """Return how each credential is doing."""
    told = (
        f"{each.name} {each.state}" + (f" until {time_of(each.until)}" if each.until else "") for each in standing.credentials
    )
    return ", ".join(told)


def slots_of(standing: Standing) -> str:
    """Return how many requests may run at once, and of how many."""
    if standing.slots is None:
        return "-"
    declared = standing.slots_declared
    return str(standing.slots) if standing.slots == declared else f"{standing.slots} of {declared or 'any'}"


def time_of(moment: datetime | None) -> str:
    """Return a time of day (UTC)."""
    return "-" if moment is None else f"{moment:%H:%M:%S}Z"
