"""What the ledger's stream says, as rows: how an event is read, and which of two about one request is the truth.

`close` outranks `abandoned`, which outranks `open`, whatever their order of arrival. Each kind repeats the opening, so that any
one alone makes a row and a row is replaced whole, never patched. Does no IO.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

import msgspec
from msgspec.structs import astuple

from gateway.policy.record import Attempt, Closed, Opened, Outcome


class Rank(IntEnum):
    """How much an event knows about its request's end."""

    OPEN = 0
    ABANDONED = 1
    CLOSED = 2


class Event(msgspec.Struct, frozen=True, gc=False):
    """One row of `usage_event` (its columns, see `gateway.stores.schema`), and the candidates tried.

    The fields are those of `Opened`, the rank, and those of `Closed`, each in its order: an event is read without naming them.
    What both have is where `Closed` has it.
    """

    request_id: str
    started_unix_ms: int
    key: str
    key_id: str
    org: str
    project: str | None
    model_requested: str | None
    tier_requested: str | None
    route: str
    stream: bool
    client_request_id: str | None
    rank: int
    outcome: str | None = None
    status: int | None = None
    error_code: str | None = None
    model_served: str | None = None
    provider: str | None = None
    tier_served: str | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_nano_usd: int | None = None
    estimated: bool = False
    queued_ms: int = 0
    ttft_ms: int | None = None
    duration_ms: int | None = None
    tried: tuple[Attempt, ...] = ()
    own_cost_nano_usd: int | None = None
    price_version: str | None = None
    cache_write_tokens: int = 0
    user_hash: str | None = None


class UndecodableError(Exception):
    """An entry of the stream that is no event of the ledger."""


class Abandonment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the admission script writes for a lease that ran out: the opening, packed as it came, and what it posted."""

    opened: msgspec.Raw
    request: int
    input: int
    output: int
    total: int
    cost_nano_usd: int = 0


_opened = msgspec.msgpack.Decoder(Opened)
_closed = msgspec.msgpack.Decoder(Closed)
_abandoned = msgspec.msgpack.Decoder(Abandonment)

_HEADER_BYTES = {0xD9: 2, 0xC4: 2, 0xDA: 3, 0xC5: 3, 0xDB: 5, 0xC6: 5}
"""Length of msgpack's str and bin headers by their first byte (the shortest strings have one byte, 0xa0 to 0xbf)."""


def _unwrapped(raw: bytes) -> bytes:
    # Lua packs every string as text, ours included, and bytes of msgpack are seldom valid UTF-8: no decoder takes it.
    return raw[1:] if 0xA0 <= raw[0] <= 0xBF else raw[_HEADER_BYTES[raw[0]] :]


_event: Callable[..., Event] = Event
"""By the order of the fields, which no type says."""


def _from_open(blob: bytes) -> Event:
    *opening, user_hash = astuple(_opened.decode(blob))
    return _event(*opening, OPEN_RANK, user_hash=user_hash)


def _from_abandoned(blob: bytes) -> Event:
    found = _abandoned.decode(blob)
    *opening, user_hash = astuple(_opened.decode(_unwrapped(bytes(found.opened))))
    # What had cost nothing yet, or had no price: nobody knows what it came to.
    used = {"input_tokens": found.input, "output_tokens": found.output, "cost_nano_usd": found.cost_nano_usd or None}
    return _event(*opening, ABANDONED_RANK, outcome=ABANDONED, estimated=True, user_hash=user_hash, **used)


def _from_close(blob: bytes) -> Event:
    closed = _closed.decode(blob)
    if closed.outcome not in ENDS:
        raise ValueError("unknown outcome")
    opened, *end = astuple(closed)
    *opening, _user_hash = astuple(opened)
    return _event(*opening, CLOSED_RANK, *end)


OPEN_RANK, ABANDONED_RANK, CLOSED_RANK = Rank.OPEN.value, Rank.ABANDONED.value, Rank.CLOSED.value
ABANDONED = Outcome.ABANDONED.value
ENDS = frozenset(outcome.value for outcome in Outcome)

_READERS = {b"open": _from_open, b"abandoned": _from_abandoned, b"close": _from_close}
_RANKS = {b"open": OPEN_RANK, b"abandoned": ABANDONED_RANK, b"close": CLOSED_RANK}


def rank_of(fields: Mapping[bytes, bytes]) -> int:
    """Return how much an entry of the stream knows, without reading it; what is no event at all comes first, to be found out."""
    return _RANKS.get(fields.get(b"kind", b""), len(_RANKS))


def decode(fields: Mapping[bytes, bytes]) -> Event:
    """Return the event that one entry of the stream holds.

    Raises UndecodableError, with the reason and none of the content.
    """
    try:
        event = _READERS[fields[b"kind"]](fields[b"blob"])
    except KeyError as error:
        raise UndecodableError("unknown kind or missing field") from error
    except (msgspec.MsgspecError, ValueError, IndexError, RecursionError) as error:
        raise UndecodableError(f"unreadable blob ({type(error).__name__})") from error
    if event.request_id.encode() != fields.get(b"id"):
        raise UndecodableError("the blob is about another request")
    return event


def better(held: Event | None, arrived: Event) -> Event:
    """Return the one of two events about a request that knows more of its end; of equals, the first."""
    return arrived if held is None or arrived.rank > held.rank else held


def merged(events: Iterable[Event]) -> list[Event]:
    """Return one event for each request, by id: writers that take rows in one order cannot deadlock."""
    best: dict[str, Event] = {}
    for event in events:
        best[event.request_id] = better(best.get(event.request_id), event)
    return [best[request_id] for request_id in sorted(best)]
