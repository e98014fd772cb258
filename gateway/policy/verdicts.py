"""What a client is told when no candidate served it, and what the books call the end. Milliseconds.

Three causes must stay apart: a limit of the caller's own (429 `rate_limit_exceeded`; for money 402 `insufficient_quota`), a busy
model (429 `engine_overloaded`, `flex_no_capacity`) and a provider at fault (502, 504). Pure.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter

from gateway.errors import (
    AuthUnavailable,
    Draining,
    EngineOverloaded,
    FlexNoCapacity,
    GatewayError,
    InsufficientQuota,
    Internal,
    IpNotAllowed,
    LimiterUnavailable,
    RateLimited,
    Unauthenticated,
    UpstreamBadResponse,
    UpstreamCredential,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.faults import EndClass, Failed, Fault
from gateway.policy.admission import Row
from gateway.policy.answers import Level, Refusal
from gateway.policy.catalogue import Tier
from gateway.policy.charges import Charge, Dimension, Kind, Unit
from gateway.policy.ends import refusal_class
from gateway.policy.growth import BASE_MILLI, window_quota
from gateway.policy.periods import bounds_ms
from gateway.policy.pricing import NANO_USD
from gateway.policy.record import Outcome

BUSY_WAIT_MS = 1_000
"""What a busy model suggests where nothing better is known: only another request's end makes room."""

FAULT_TEXT = "The model's provider could not be reached or failed; try again"

TIMEOUTS = frozenset({Fault.TIMEOUT, Fault.UPSTREAM_TIMEOUT})
BAD_ANSWERS = frozenset({Fault.PROTOCOL, Fault.BAD_ANSWER})
OUR_OWN = (AuthUnavailable, Draining, Internal, LimiterUnavailable)
NO_MORE = (IpNotAllowed, Unauthenticated)
"""What ends a request whose key was good when it came, and is so no more."""

OUR_ACCOUNT = frozenset({Fault.CREDENTIAL, Fault.BILLING})
OUR_SETUP = OUR_ACCOUNT | {Fault.STALE_MODEL}


def refused(rows: Sequence[Row], refusals: Sequence[Refusal], now_ms: int) -> GatewayError:
    """Return what a request hears that no row admitted; `now_ms` is the store's time then.

    A limit of the caller's own is the cause where it ended the walk, or where every service within the limits was refused by one:
    service over the limit that found no room does not change the cause. Where nobody may be asked at all, it is not for want of
    room.
    """
    last = refusals[-1]
    if all(refusal_class(refusal) is EndClass.UNAVAILABLE for refusal in refusals):
        return UpstreamUnavailable("No provider of the model is in service at the moment", retry_after_ms=BUSY_WAIT_MS)
    if ends_walk(refusals):
        return own_limit(rows[last.row], last, now_ms)
    within = [refusal for refusal in refusals if rows[refusal.row].tier is not Tier.OVER_LIMIT] or list(refusals)
    own = [refusal for refusal in within if refusal.charge.tenant]
    if len(own) == len(within):
        soonest = min(own, key=lambda refusal: (refusal.never, refusal.wait_ms is None, refusal.wait_ms or 0))
        return own_limit(rows[soonest.row], soonest, now_ms)
    waits = [refusal.wait_ms for refusal in refusals if refusal.wait_ms is not None and not refusal.charge.tenant]
    return busy(rows[last.row].tier, min(waits, default=BUSY_WAIT_MS))


def ends_walk(refusals: Sequence[Refusal]) -> bool:
    """Return whether a limit of the caller's own was the last word: nothing comes after it."""
    return refusals[-1].charge.tenant and refusals[-1].charge.ends_walk


def busy(tier: Tier, wait_ms: int | None) -> GatewayError:
    """Return the words for a model without room."""
    wait_ms = BUSY_WAIT_MS if wait_ms is None else wait_ms
    return FlexNoCapacity(retry_after_ms=wait_ms) if tier is Tier.FLEX else EngineOverloaded(retry_after_ms=wait_ms)


NAMES: Mapping[Dimension, str] = {
    Dimension.RPM: "requests per minute (RPM)",
    Dimension.RPD: "requests per day (RPD)",
    Dimension.TPM: "tokens per minute (TPM)",
    Dimension.TPM_IN: "input tokens per minute (TPM)",
    Dimension.TPM_OUT: "output tokens per minute (TPM)",
    Dimension.CONCURRENCY: "concurrent requests",
}


OWNERS: Mapping[str, str] = {"kb": "this key", "p": "this project", "pb": "this project", "ob": "this organization"}


def own_limit(row: Row, refusal: Refusal, now_ms: int) -> GatewayError:
    """Return the refusal by a limit of the caller's own, naming the limit and never another caller's use of it."""
    return insufficient(refusal.charge, now_ms) if refusal.charge.is_budget else rate_limited(row, refusal)


def insufficient(charge: Charge, now_ms: int) -> InsufficientQuota:
    """Return the refusal by a budget: whose it is, how much of what, and when it begins anew."""
    owner, period, _ = charge.scope.split(":", 2)
    money = charge.unit is Unit.NANO_USD
    amount = f"{Decimal(charge.limit) / NANO_USD:f} USD" if money else f"{charge.limit} tokens"
    resets = datetime.fromtimestamp(bounds_ms(now_ms, charge.period_ms)[1] / 1000, UTC)
    budget = f"the budget of {OWNERS[owner]}, {amount} a {period}, which begins anew on {resets:%Y-%m-%d} at 00:00 UTC"
    verb = "cost" if money else "take"
    return InsufficientQuota(f"This request may {verb} more than is left of {budget}: ask for fewer tokens, or have it raised")


def rate_limited(row: Row, refusal: Refusal) -> RateLimited:
    """Return the refusal by a rate or by slots of the caller's own."""
    charge = refusal.charge
    owner = OWNERS.get(charge.scope.partition(":")[0])
    name = NAMES[charge.dimension] if owner is None else f"{NAMES[charge.dimension]} of {owner}"
    dimension = "requests" if charge.unit in (Unit.REQUEST, Unit.SLOT) else "tokens"
    if refusal.never:
        text = f"Request too large for {row.model} on {name}: limit {charge.limit}, requested {row.estimate.of(charge.unit)}"
        return RateLimited(text, dimension=dimension, never=True)
    if charge.dimension is Dimension.CONCURRENCY:
        text = f"Rate limited: {charge.limit} {name} are running already"
        return RateLimited(text, dimension=dimension, retry_after_ms=BUSY_WAIT_MS)
    text = f"Rate limit reached for {row.model} on {name}: limit {charge.limit}"
    return RateLimited(text, dimension=dimension, retry_after_ms=refusal.wait_ms or BUSY_WAIT_MS)


def telling(earlier: Failed | None, later: Failed) -> Failed:
    """Return which of two failures the client hears of: the later, unless the earlier alone is something that it can act on.

    A request that is at fault itself can be changed, a busy model waited for; that our own set-up failed elsewhere helps nobody.
    """
    if earlier is None or later.fault is Fault.REJECTED:
        return later
    return earlier if earlier.fault is Fault.REJECTED or (later.fault in OUR_SETUP and earlier.fault not in OUR_SETUP) else later


def exhausted(failed: Failed, tier: Tier, hints_ms: Sequence[int]) -> GatewayError:
    """Return what a request hears whose walk ends in this failure; `hints_ms` are the waits that providers asked for."""
    fault = failed.fault
    if fault is Fault.REJECTED:
        return UpstreamRejected(failed)
    if fault in (Fault.BUSY, Fault.ACCOUNT_RATE):
        return busy(tier, min(hints_ms, default=None))
    if fault in TIMEOUTS:
        return UpstreamTimeout("The model's provider did not answer in time")
    if fault in BAD_ANSWERS:
        return UpstreamBadResponse("The model's provider sent an answer that is none")
    if fault in OUR_ACCOUNT:
        return UpstreamCredential("The gateway's account at the model's provider was refused")
    return UpstreamUnavailable(FAULT_TEXT)


def outcome(error: GatewayError) -> Outcome:
    """Return the ledger's word for a request that was opened and ended in `error`.

    What the gateway itself ended is interrupted. A limit of the caller's own that ends the walk comes after a provider's failure
    here, or the request would never have been opened: that failure is its end.
    """
    if isinstance(error, (UpstreamRejected, *NO_MORE)):
        return Outcome.CLIENT_ERROR
    if isinstance(error, OUR_OWN):
        return Outcome.INTERRUPTED
    return Outcome.TIMEOUT if isinstance(error, UpstreamTimeout) else Outcome.UPSTREAM_ERROR


def rate_headers(levels: Sequence[Level]) -> list[tuple[bytes, bytes]]:
    """Return OpenAI's six rate headers for the tightest of the caller's own limits, and five of those that grow with use.

    A kind without a limit has none.
    """
    requests: tuple[Level, int] | None = None
    tokens: tuple[Level, int] | None = None
    for level in levels:
        charge = level.charge
        if not charge.tenant or charge.kind is not RATE or charge.shadow:  # what refuses nobody is nobody's to mind
            continue
        left = charge.capacity - level.level - level.held
        if charge.unit is REQUEST:
            if requests is None or left < requests[1]:
                requests = level, left
        elif tokens is None or left < tokens[1]:
            tokens = level, left
    headers = _shown(REQUEST_HEADERS, requests) + _shown(TOKEN_HEADERS, tokens)
    return headers + _growth_headers(levels) if any(map(_growth, levels)) else headers


REQUEST_HEADERS = (b"x-ratelimit-limit-requests", b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-requests")
TOKEN_HEADERS = (b"x-ratelimit-limit-tokens", b"x-ratelimit-remaining-tokens", b"x-ratelimit-reset-tokens")

_growth = attrgetter("growth")
RATE, REQUEST = Kind.RATE, Unit.REQUEST
"""Looked up once: an enumeration's members are found through its class, and this runs for every request."""


def _shown(names: tuple[bytes, bytes, bytes], tightest: tuple[Level, int] | None) -> list[tuple[bytes, bytes]]:
    if tightest is None:
        return []
    level, left = tightest
    limit, remaining, reset = names
    return [(limit, b"%d" % level.charge.limit), (remaining, b"%d" % max(0, left)), (reset, duration(level.reset_ms))]


def _growth_headers(levels: Sequence[Level]) -> list[tuple[bytes, bytes]]:
    """Return how far the key's limits have grown: of each kind, the one that most is used of; the window is the first to end."""
    grown: dict[bytes, tuple[int, int]] = {}
    remaining_ms: list[int] = []
    for level in levels:
        charge, growth = level.charge, level.growth
        if growth is not None and charge.dynamic is not None and not charge.shadow:
            kind = b"requests" if charge.unit is REQUEST else b"tokens"
            used_percent = growth.posted * 100 // max(1, window_quota(charge, charge.dynamic))
            grown[kind] = max(grown.get(kind, (-1, 0)), (used_percent, growth.scale_milli))
            remaining_ms.append(growth.remaining_ms)
    if not remaining_ms:
        return []
    scales = [(b"x-ratelimit-dynamic-scale-" + kind, b"%.2f" % (scale / BASE_MILLI)) for kind, (_, scale) in grown.items()]
    uses = [(b"x-ratelimit-dynamic-period-usage-" + kind, b"%d%%" % percent) for kind, (percent, _) in grown.items()]
    return [*scales, (b"x-ratelimit-dynamic-period-remaining", b"%ds" % -(-min(remaining_ms) // 1000)), *uses]


def duration(milliseconds: int) -> bytes:
    """Return a duration as Go writes it and as these headers carry it: `12ms`, `1s`, `6m0s`, `1h0m0s`."""
    if milliseconds < 1000:
        return b"%dms" % milliseconds
    minutes, seconds = divmod(-(-milliseconds // 1000), 60)
    if not minutes:
        return b"%ds" % seconds
    hours, minutes = divmod(minutes, 60)
    return b"%dh%dm%ds" % (hours, minutes, seconds) if hours else b"%dm%ds" % (minutes, seconds)
