"""`tiergate explain`: say what the gateway would do with a request, and by which rules. Nothing is sent, no level is looked at.

A key is looked for in the file, then in the database, which is only read.

Exit codes: 0 explained, refusals included, 1 no such key, 2 usage, 69 a database that cannot tell, 78 a bad configuration.
Secrets never show.
"""

import asyncio
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from gateway.cli.check import EXIT_UNAVAILABLE
from gateway.cli.keys import config_of, end
from gateway.config import Config, compile_catalogue
from gateway.config.problems import did_you_mean
from gateway.config.tenants import Definitions
from gateway.errors import InvalidValue, NotFound
from gateway.policy.catalogue import Catalogue, Deployment, Key, Tier
from gateway.policy.explain import Asked, Params, barred, endpoint_of
from gateway.policy.explain import explain as explained
from gateway.policy.explanation import Chain, Charged, Cost, Explanation, Refused, TargetStep, TierChoice, Waiting
from gateway.policy.tenancy import Found, may_enter, state_of
from gateway.providers import DIALECTS
from gateway.stores.database import MissingLedgerError, Reader
from gateway.stores.keys import AWAY, known_as, reason
from gateway.wire.contracts import Contract
from gateway.wire.request import TABLES, Endpoint, InferenceRequest

WIDTH = 100
LABEL = 12
"""The width of the column of labels."""

COLUMNS = ("scope", "counts", "limit", "burst", "a minute", "takes", "if full", "rule")
FIGURES = frozenset({2, 3, 4, 5})
"""The columns that are set to the right."""

LEGEND = (
    "If full: 'next' waits where its model is waited for, then tries the next target; '429' ends the walk; 'never' is a bucket "
    "that is smaller than the request."
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--key",
    "name",
    required=True,
    help="The key that asks: one of the file by its name, else one of the database, by name or id.",
)
@click.option("--request", "source", type=click.File("rb"), required=True, help="The request's body; - is standard input.")
@click.option("--endpoint", type=click.Choice([str(each) for each in TABLES]), help="By default what the body is written for.")
@click.option("--prefix", default="/v1", show_default=True, help="What its path begins with: the contract that it is read by.")
@click.option("--project", help="The request's ai_project_id.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def explain(environ: dict[str, str], /, file: Path, name: str, source: BinaryIO, *, as_json: bool, **asked: Any) -> None:
    """Say what FILE makes of a request, and by which rules. Sends nothing."""
    config = config_of(file, environ)
    # Keys are found by name here and never by their digests, so that no pepper has to be made for them.
    catalogue = compile_catalogue(config, pepper=b"")
    key, is_barred = _key(config, catalogue, name)
    body = source.read()
    endpoint = Endpoint(asked["endpoint"] or endpoint_of(body))
    contract = _contract(catalogue, asked["prefix"])
    request = Asked(endpoint=endpoint, contract=contract, body=body, project=asked["project"], now_unix_s=time.time())
    found = barred(key, endpoint) if is_barred else explained(catalogue, key, request, left_by)
    click.echo(msgspec.json.format(msgspec.json.encode(found)) if as_json else as_text(found))


def _contract(catalogue: Catalogue, prefix: str) -> Contract:
    if prefix not in catalogue.prefixes:
        raise click.ClickException(f"unknown prefix '{prefix}'{did_you_mean(prefix, catalogue.prefixes)}")
    return catalogue.prefixes[prefix]


def _key(config: Config, catalogue: Catalogue, name: str) -> tuple[Key, bool]:
    """Return a key of the file or of the database, and whether it may not enter at all."""
    keys = {key.name: key for key in catalogue.keys.values()}
    if name in keys:
        return keys[name], False
    try:
        found = asyncio.run(_kept(config.database.url.reveal(), name))
        key = msgspec.structs.replace(Definitions(config).key(found), expires_at_s=found.ends_unix_s())
    except (NotFound, MissingLedgerError):
        raise click.ClickException(f"unknown key '{name}'{did_you_mean(name, keys)}") from None
    except InvalidValue as error:
        raise click.ClickException(error.message) from None
    except AWAY as error:
        end(EXIT_UNAVAILABLE, f"no key of the file is called '{name}', and the database cannot be asked: {reason(error)}")
    except ValueError as error:
        raise click.ClickException(f"its requests hear 503: {error}") from None
    if may_enter(found.key):
        return key, False
    click.echo(f"the key {found.key.id} is {state_of(found.key, round(1000 * time.time()))}", err=True)
    return key, True


async def _kept(url: str, reference: str) -> Found:
    reader = Reader(url, pool=1)
    try:
        return await known_as(reader.fetch, reference)
    finally:
        await reader.close()


def left_by(request: InferenceRequest, deployment: Deployment, tier: Tier) -> tuple[Params, Params]:
    """Return the fields that a deployment's provider does not get, and those that it gets less of."""
    dialect = DIALECTS[deployment.provider.dialect](deployment.provider)
    call = dialect.call(request, deployment, tier, last=True)
    return call.dropped, call.lowered


def as_text(found: Explanation) -> str:
    """Return an explanation for a terminal: labelled lines, then each target with what it would take."""
    return "\n".join(_lines(found))


def _lines(found: Explanation) -> Iterator[str]:
    yield from _heard(found)
    yield from _planned(found)
    for place, target in enumerate(found.targets, 1):
        yield ""
        yield from _target(place, target)
    if found.targets:
        yield ""
        yield from _wrapped(LEGEND, "", "")


def _heard(found: Explanation) -> Iterator[str]:
    caller = found.caller
    project = "" if caller.project is None else f", project {caller.project}"
    yield from _labelled("request", f"{found.endpoint}, by key {caller.key} (org {caller.org}{project}, plan {caller.plan})")
    if caller.only_from:
        yield from _labelled("", f"taken from {', '.join(caller.only_from)} alone")
    if found.refused is not None:
        yield from _refused(found.refused)
    if found.tier is not None:
        yield from _tier(found.tier)


def _planned(found: Explanation) -> Iterator[str]:
    for waiting in found.waiting:
        yield from _waiting(waiting)
    if found.chain is not None:
        yield from _chain(found.chain)
    for place, hold in enumerate(dict.fromkeys(target.hold for target in found.targets)):
        yield from _labelled("" if place else "holds", f"{hold.input_tokens} + {hold.output_tokens} tokens: {hold.rule}")
    if found.estimated_cost is not None:
        yield from _labelled("cost", f"{_money(found.estimated_cost)}: {found.estimated_cost.rule}")


def _refused(refused: Refused) -> Iterator[str]:
    param = "" if refused.param is None else f", param {refused.param}"
    retry = "" if refused.should_retry is None else f", x-should-retry {str(refused.should_retry).lower()}"
    yield from _labelled("refused", f"{refused.status} {refused.code} (type {refused.type}{param}{retry})")
    yield from _labelled("", refused.message)
    for bad in refused.detail[1:]:
        yield from _labelled("", f"{'.'.join(map(str, bad.loc))}: {bad.msg}")


def _tier(tier: TierChoice) -> Iterator[str]:
    yield from _labelled("tier", f"{tier.tier}, for {tier.requested or 'no service_tier'}: {tier.rule}")
    yield from _labelled("over limit", f"{'yes' if tier.over_limit else 'no'}: {tier.over_limit_rule}")


def _waiting(waiting: Waiting) -> Iterator[str]:
    yield from _labelled("class", f"{waiting.tier_class}, at {waiting.model}: {waiting.class_rule}")
    most = f"up to {waiting.patience_s:g} s, with {waiting.max_waiters} others, {waiting.max_waiters_of_org} of the org"
    yield from _labelled("waits", f"{most if waiting.patience_s else 'never'}: {waiting.rule}")


def _chain(chain: Chain) -> Iterator[str]:
    for place, step in enumerate(chain.models):
        alias = "" if step.asked_as == step.model else f" (as {step.asked_as})"
        yield from _labelled("" if place else "models", f"{step.model}{alias} at {', then '.join(step.tiers)}: {step.rule}")
    for place, left in enumerate(chain.left_out):
        yield from _labelled("" if place else "left out", f"{left.deployment or left.model}: {left.rule}")
    leads_on = ", ".join(chain.leads_on) or "nothing"
    yield from _labelled("leads on", f"{leads_on} (fallback.on); {chain.max_attempts} attempts at the most")


def _target(place: int, target: TargetStep) -> Iterator[str]:
    yield f"{place}. {target.deployment} at {target.tier}"
    known = target.first_choice_share
    share = "" if known == 1 else f", first of its order {'by its strategy' if known is None else f'in {known:.0%}'}"
    word = "no service_tier" if target.provider_tier is None else f"service_tier {target.provider_tier}"
    if target.provider_priority is not None:
        word += f", priority {target.provider_priority}"
    yield from _indented(f"{target.tier_class} class; order {target.order}, weight {target.weight:g}{share}; sent {word}")
    hold, cost = target.hold, target.cost
    yield from _indented(f"holds {hold.input_tokens} + {hold.output_tokens} tokens, costs {_money(cost)}: {cost.rule}")
    if len(target.credentials) > 1:
        yield from _indented(f"takes one of {len(target.credentials)} credentials, in any order: {', '.join(target.credentials)}")
    if target.price is not None:
        yield from _indented(f"price {target.price.version}; {_paid(target)}")
    for said, params in ("drops", target.dropped_params), ("lowers", target.adjusted_params):
        if params:
            yield from _indented(f"{said} {', '.join(params)}")
    yield from _indented(target.rule)
    if target.charges:
        yield from _table((COLUMNS, *map(_row, target.charges)))


def _row(charge: Charged) -> tuple[str, ...]:
    full = ("429" if charge.ends_walk else "next") if charge.fits else "never"
    figures = ("-" if each is None else str(each) for each in (charge.limit, charge.burst, charge.rate, charge.cost))
    return (charge.scope, charge.dimension, *figures, full, charge.rule)


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        sized = enumerate(zip(row, widths, strict=True))
        cells = (cell.rjust(width) if column in FIGURES else cell.ljust(width) for column, (cell, width) in sized)
        yield ("   " + "  ".join(cells)).rstrip()


def _labelled(label: str, text: str) -> Iterator[str]:
    yield from _wrapped(text, label.ljust(LABEL), " " * LABEL)


def _indented(text: str) -> Iterator[str]:
    yield from _wrapped(text, "   ", "     ")


def _wrapped(text: str, first: str, rest: str) -> Iterator[str]:
    # Names have hyphens and are to be found whole.
    yield from textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _paid(target: TargetStep) -> str:
    nano_usd, source = target.cost.own_cost_nano_usd, target.price.cost_source if target.price else None
    return "what you pay is not known" if nano_usd is None else f"you pay {nano_usd} nano-USD: {source}"


def _money(cost: Cost) -> str:
    if cost.cost_nano_usd is None:
        return "nobody knows what"
    return f"{cost.cost_micro_usd} micro-USD ({cost.cost_nano_usd} nano-USD)"
