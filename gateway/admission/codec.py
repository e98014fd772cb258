"""Admission values as the scripts' arguments, and their replies as verdicts. Times are Unix milliseconds of the store."""

from collections.abc import Callable, Mapping, Sequence
from struct import Struct, pack

import msgspec
from msgspec.structs import astuple, replace

from gateway.policy.admission import Ending, Lesson, Row, Seed, Sign, Wait
from gateway.policy.answers import (
    Cause,
    Granted,
    Growth,
    Learned,
    Level,
    Levels,
    Posted,
    Queued,
    Refusal,
    Refused,
    Spent,
    Unseeded,
    Verdict,
)
from gateway.policy.breaker import Breaker
from gateway.policy.charges import Charge, Dimension, Estimate, Kind
from gateway.policy.growth import at_scale
from gateway.policy.limits import LAYOUT
from gateway.policy.upstreams import Condition

MOST_UNITS = 2**31 - 1
"""The most that one figure may say: times a minute's milliseconds it is still exact in the scripts' arithmetic."""

MOST_SPENT = 2**52
"""The most that one figure of a budget may say: two of them are still exact in the scripts' arithmetic."""

KEPT_ROWS = 4096
"""How many rows' charges are kept encoded. They are made with the configuration, so few are ever needed."""

GRANTED, REFUSED, SPENT, QUEUED, UNSEEDED = range(5)

PLACES: Mapping[Dimension, int] = {dimension: 9 + 3 * at for at, (dimension, *_) in enumerate(LAYOUT)}
"""Where in a scope each limit's bucket stands, counted as Lua does; core.lua tells what else is there."""

BUDGET_PLACE = 9
"""Where a budget's stands, in a scope of its own."""

SHADOW = 2
"""In the place of whether a charge ends the walk: it refuses nothing."""

encode = msgspec.msgpack.Encoder().encode
CONDITION = Struct("<12d")
"""The figures of a condition, in the order of upstreams.lua; behind them stands who probes."""

pack_estimate = Struct("<7d").pack


class Reply(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What acquire.lua, switch.lua and confirm.lua answer; the layout is told in rows.lua."""

    verdict: int
    now_ms: int
    row: int
    levels: tuple[int, ...]
    refusals: tuple[int, ...]
    watched: int
    epoch: int | None = None
    """None where the release before this one has granted."""


decode_reply = msgspec.msgpack.Decoder(Reply).decode


class Encoded(msgspec.Struct, frozen=True):
    """What of a row is the same for every request, as arguments: the scopes' keys, the charges of each, and the seat.

    `row` keeps the identities alive that it is found by.
    """

    row: Row
    keys: tuple[str, ...]
    groups: tuple[bytes, ...]
    seats: tuple[bytes, bytes]
    """As one of several, and as the last."""

    def is_of(self, row: Row) -> bool:
        """Return whether this is what the row encodes to."""
        known = self.row
        return known.upstream is row.upstream and known.pool == row.pool and known.precedence is row.precedence


class RowEncoder:
    """Encodes rows once for each tuple of charges: the same object serves many requests.

    All charges of one scope reach as far and are as much the caller's own.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[int, Encoded] = {}

    def encode(self, row: Row) -> Encoded:
        """Return a row as arguments. Raises ValueError where the charges of one scope do not stand together."""
        known = self._known.get(id(row.charges))
        if known is None or not known.is_of(row):
            if len(self._known) >= KEPT_ROWS:
                self._known.clear()
            known = self._known[id(row.charges)] = self._encode(row)
        return known

    def _encode(self, row: Row) -> Encoded:
        groups = encode_groups(row.charges)
        keys = tuple(f"{self._prefix}{scope}" for scope in groups)
        upstream = row.upstream
        whom = (upstream.deployment, upstream.credential, upstream.slots, upstream.share_ppm)
        seat = b"%x" % len(groups) + encode((row.precedence.value, row.pool, *whom))
        return Encoded(row, keys, tuple(groups.values()), (b"0" + seat, b"1" + seat))


def encode_groups(charges: Sequence[Charge]) -> dict[str, bytes]:
    """Return charges as arguments, by their scopes. Raises ValueError where those of one scope do not stand together."""
    groups: dict[str, list[int]] = {}
    for charge in charges:
        if charge.scope in groups and charge.scope != next(reversed(groups)):
            raise ValueError(f"the charges of {charge.scope} do not stand together")
        groups.setdefault(charge.scope, [charge.reach.value, int(charge.tenant)]).extend(_figures(charge))
    for scope, dynamic in {charge.scope: charge.dynamic for charge in charges if charge.dynamic is not None}.items():
        groups[scope] += (dynamic.window_ms, dynamic.ceiling_milli)
    return {scope: doubles(figures) for scope, figures in groups.items()}


def _figures(charge: Charge) -> tuple[int, ...]:
    # A HELD bucket has no period; 1 keeps the scripts' arithmetic free of a case for it.
    period_ms = 1 if charge.kind is Kind.HELD else charge.period_ms
    ends = SHADOW if charge.shadow else int(charge.ends_walk)
    figures = (charge.kind.value, charge.unit.value, charge.capacity, charge.rate, period_ms, ends)
    return (PLACES.get(charge.dimension, BUDGET_PLACE), *figures)


GOOD = Ending(Sign.GOOD)
"""How nearly all attempts end."""


class EndingEncoder:
    """Encodes how attempts ended, with the terms by which the store judges their upstreams."""

    def __init__(self, breaker: Breaker) -> None:
        opening = (breaker.failures, breaker.ratio_ppm, breaker.window_ms, breaker.open_ms, breaker.max_open_ms)
        self._terms = (*opening, breaker.cooldown_max_ms)
        self._good = self._encode(GOOD)

    def encode(self, ending: Ending) -> bytes:
        """Return an ending as one argument: 1 where it is news, the digit of its sign, its own figures, the terms."""
        return self._good if ending == GOOD else self._encode(ending)

    def _encode(self, ending: Ending) -> bytes:
        own = (ending.hint_ms, ending.dice, ending.exhausted_ms)
        return b"%d%d" % (ending.is_news, ending.sign) + encode((*own, *self._terms))


def encode_estimate(estimate: Estimate) -> bytes:
    """Return figures as one argument, each between nothing and `MOST_UNITS`, those of budgets and `MOST_SPENT`."""
    one, *tokens, slot, money, spent_tokens = figures = astuple(estimate)
    if min(figures) < 0 or max(figures) > MOST_UNITS:
        tokens = [min(max(0, figure), MOST_UNITS) for figure in tokens]
        money, spent_tokens = (min(max(0, figure), MOST_SPENT) for figure in (money, spent_tokens))
    return pack_estimate(one, *tokens, slot, money, spent_tokens)


def encode_lesson(lesson: Lesson | None) -> tuple[str | int, ...]:
    """Return what there is to learn as arguments, none where there is nothing."""
    if lesson is None:
        return ()
    return (lesson.org, lesson.model, lesson.ratio_ppm, min(lesson.output_tokens, MOST_UNITS))


def posted(now_ms: int, opened: int, budgets: Sequence[int] = (), *learned: int) -> Posted:
    """Return what settle.lua answers."""
    return Posted(now_ms, bool(opened), (*budgets,), Learned(*learned) if learned else None)


def encode_seed(seed: Seed) -> bytes:
    """Return what was spent of a budget as one argument."""
    return doubles((min(seed.spent, MOST_SPENT), seed.at_ms, seed.charge.period_ms))


def doubles(figures: Sequence[int]) -> bytes:
    """Return whole numbers as the scripts read them fastest."""
    return pack(f"<{len(figures)}d", *figures)


def encode_wait(wait: Wait | None) -> bytes:
    """Return how a request may wait as one argument."""
    return b"" if wait is None else encode((wait.org, wait.worker, wait.patience_ms, wait.max_waiters, wait.max_of_org))


def condition(packed: bytes | None) -> Condition:
    """Return how a deployment is doing, as upstreams.lua keeps it; nothing is kept of one that is well."""
    if packed is None:
        return Condition()
    *figures, disabled = map(int, CONDITION.unpack_from(packed))
    return _condition(*figures, packed[CONDITION.size :].decode(), disabled=bool(disabled))


_condition: Callable[..., Condition] = Condition
"""By the order of the fields, which no type says."""


def verdict(packed: bytes, rows: Sequence[Row]) -> Verdict:
    """Return a script's answer about these rows."""
    reply = decode_reply(packed)
    if reply.verdict == GRANTED:
        levels = _levels(reply.levels, rows[reply.row].charges)
        refusals = _refusals(reply.refusals, rows)
        return Granted(reply.row, reply.now_ms, levels, refusals, watched=bool(reply.watched), epoch=reply.epoch)
    if reply.verdict == REFUSED:
        levels = _levels(reply.levels, rows[reply.row].charges) if rows else ()
        return Refused(reply.now_ms, _refusals(reply.refusals, rows), levels)
    if reply.verdict == QUEUED:
        levels = _levels(reply.levels, rows[-1].charges) if reply.levels else ()
        return Queued(reply.now_ms, reply.row, _refusals(reply.refusals, rows), levels)
    if reply.verdict == UNSEEDED:
        return Unseeded(reply.now_ms, tuple(rows[0].charges[at] for at in reply.levels))
    return Spent(reply.now_ms)


def levels(packed: bytes, charges: Sequence[Charge]) -> Levels | Unseeded:
    """Return what levels.lua says of the buckets of these charges."""
    reply = decode_reply(packed)
    if reply.verdict == UNSEEDED:
        return Unseeded(reply.now_ms, tuple(charges[at] for at in reply.levels))
    return Levels(reply.now_ms, _levels(reply.levels, tuple(charges)))


def _levels(figures: tuple[int, ...], charges: tuple[Charge, ...]) -> tuple[Level, ...]:
    levels = tuple(map(Level, charges, figures[::3], figures[1::3], figures[2::3]))
    return _grown(levels, figures[3 * len(charges) :]) if len(figures) > 3 * len(charges) else levels


def _grown(levels: tuple[Level, ...], figures: tuple[int, ...]) -> tuple[Level, ...]:
    growths = map(Growth, figures[::3], figures[1::3], figures[2::3])
    return tuple(level if level.charge.dynamic is None else _in_force(level, next(growths)) for level in levels)


def _in_force(level: Level, growth: Growth) -> Level:
    return replace(level, charge=at_scale(level.charge, growth.scale_milli), growth=growth)


def _refusals(figures: tuple[int, ...], rows: Sequence[Row]) -> tuple[Refusal, ...]:
    if not figures:
        return ()
    parts = zip(figures[::4], figures[1::4], figures[2::4], figures[3::4], strict=True)
    return tuple(Refusal(row, rows[row].charges[at], None if wait < 0 else wait, Cause(why)) for row, at, wait, why in parts)
