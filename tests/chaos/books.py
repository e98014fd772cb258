"""The ledger against what clients got and the provider did: what has to be equal, and what may be missing by what is promised."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.policy.record import Outcome
from gateway.stores.database import Reader
from gateway.stores.reports import Question, Reports, exported
from tests.chaos.kills import Kill
from tests.chaos.load import Got
from tests.chaos.upstream import Served

PRICE_NANO_USD = {"input": 1_000, "output": 3_000}
"""Of a token."""

FACTOR = {"priority": 2.0, "default": 1.0, "over-limit": 1.0, "flex": 0.5}

LOST_S = 3.0
"""So much of what a store had taken note of may be gone with it: two seconds of writing and one of syncing (`everysec`)."""

Row = Mapping[str, Any]


class Facts(msgspec.Struct, frozen=True):
    """All that is known: clients, provider, kills, and the ledger's rows with their sums."""

    got: Sequence[Got]
    served: Sequence[Served]
    kills: Sequence[Kill]
    rows: Sequence[Row]
    sums: Sequence[Row]
    strict: bool


class Line(msgspec.Struct, frozen=True):
    """A line of the table: what was counted, how much of it, and whether there may be any."""

    what: str
    count: int
    allowed: bool = True
    some: tuple[str, ...] = ()

    @property
    def is_bad(self) -> bool:
        """Return whether there is something that must not be."""
        return self.count > 0 and not self.allowed


def fault(what: str, ids: Iterable[str]) -> Line:
    """Return the line of what must not be."""
    found = sorted(set(ids))
    return Line(what, len(found), allowed=False, some=tuple(found[:3]))


async def rows_of(database: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the ledger's rows as they are stored, and its sums by org."""
    reader = Reader(database)
    try:
        return await reader.fetch(exported(0, live=True)), await Reports(reader).rows(Question(by=("org",)))
    finally:
        await reader.close()


def cost_nano_usd(row: Row) -> int:
    """Return what a row has to cost."""
    plain = sum(row[f"{kind}_tokens"] * price for kind, price in PRICE_NANO_USD.items())
    return int(plain * FACTOR[row["tier_served"]])


def table(facts: Facts) -> list[Line]:
    """Return the reconciliation."""
    by_id: dict[str, list[Row]] = defaultdict(list)
    for row in facts.rows:
        by_id[row["client_request_id"]].append(row)
    calls: dict[str, list[Served]] = defaultdict(list)
    for each in facts.served:
        calls[each.id].append(each)
    ends = Counter(got.end for got in facts.got)
    outcomes = Counter(str(row["outcome"]) for row in facts.rows)
    return [
        *(Line(f"clients: {end}", count) for end, count in sorted(ends.items())),
        *(Line(f"provider: {end}", count) for end, count in sorted(Counter(each.end for each in facts.served).items())),
        *(Line(f"rows: {outcome}", count) for outcome, count in sorted(outcomes.items())),
        *_completed(facts, by_id, calls),
        *_others(facts, by_id, calls),
        fault("sums that are not their rows'", _wrong_sums(facts)),
    ]


def _completed(facts: Facts, by_id: Mapping[str, Sequence[Row]], calls: Mapping[str, Sequence[Served]]) -> list[Line]:
    """Hold what clients had whole to the provider's log, to the token and the nano-dollar."""
    whole = [got for got in facts.got if got.end == "whole"]
    known = [got for got in whole if any(row["outcome"] == Outcome.OK for row in by_id[got.id])]
    missing = {got.id for got in whole} - {got.id for got in known}
    excused = set() if facts.strict else {got.id for got in whole if got.id in missing and _near(got.ended_unix_s, facts.kills)}
    wrong, dear = [], []
    for got in known:
        [row, *_] = by_id[got.id]
        [call] = [each for each in calls[got.id] if each.end == "whole"]
        figures = (row["model_served"], row["input_tokens"], row["output_tokens"], row["estimated"])
        if figures != (call.model, call.input_tokens, call.output_tokens, False):
            wrong.append(got.id)
        if row["cost_nano_usd"] != cost_nano_usd(row):
            dear.append(got.id)
    return [
        Line("completed, by the bound of `standard` without their end", len(excused)),
        fault("completed without a row that says so", missing - excused),
        fault("completed with other tokens than the provider's", wrong),
        fault("completed with another cost than their tokens'", dear),
    ]


def _others(facts: Facts, by_id: Mapping[str, Sequence[Row]], calls: Mapping[str, Sequence[Served]]) -> list[Line]:
    """See that everything else has one honest end, or was lost within the bound."""
    known = {got.id for got in facts.got}
    whole = {got.id for got in facts.got if got.end == "whole"}
    unknown = [each for each in facts.served if each.end != "refused" and not by_id.get(each.id) and each.id not in whole]
    lost = {each.id for each in unknown if _near(each.asked_unix_s, [kill for kill in facts.kills if kill.takes_both])}
    generous = [
        row["client_request_id"]
        for row in facts.rows
        if row["output_tokens"] > max((each.output_tokens for each in calls[row["client_request_id"]]), default=0)
    ]
    return [
        Line("served, given up within the bound: worker and store were killed at once", len(lost)),
        fault("served without a row", {each.id for each in unknown} - lost),
        fault("two rows of one request", (own_id for own_id, rows in by_id.items() if len(rows) > 1)),
        fault("rows that nobody asked for", by_id.keys() - known),
        fault("rows that never ended", (row["client_request_id"] for row in facts.rows if row["outcome"] is None)),
        fault("rows with more output than the provider sent", generous),
        fault("requests that nobody answered", (got.id for got in facts.got if got.end == "stuck")),
    ]


def _near(at_unix_s: float, kills: Iterable[Kill]) -> bool:
    """Return whether something was killed within the bound after this."""
    return any(kill.at_unix_s - LOST_S <= at_unix_s <= kill.at_unix_s + LOST_S for kill in kills)


def _wrong_sums(facts: Facts) -> list[str]:
    """Return the orgs whose sums are not those of their rows."""
    figures = ("requests", "input_tokens", "output_tokens")
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for row in facts.rows:
        if row["outcome"] is not None:
            counted[row["org"]].update(requests=1, input_tokens=row["input_tokens"], output_tokens=row["output_tokens"])
    summed = {row["org"]: Counter({name: row[name] for name in figures}) for row in facts.sums}
    return [org for org in counted.keys() | summed.keys() if counted.get(org) != summed.get(org)]
