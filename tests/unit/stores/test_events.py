import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.record import Attempt, Closed, Opened, Reason
from gateway.stores.events import Event, Rank, UndecodableError, better, decode, merged

pack = msgspec.msgpack.encode

OPENED = Opened(
    request_id="r1",
    started_unix_ms=1_790_000_000_123,
    key="ci",
    key_id="k1",
    org="acme",
    project="search",
    model_requested="llama",
    tier_requested="auto",
    route="chat",
    stream=True,
    client_request_id="theirs",
    user_hash="u",
)
CLOSED = Closed(
    opened=OPENED,
    outcome="ok",
    status=200,
    error_code=None,
    model_served="llama",
    provider="nebius",
    tier_served="default",
    attempts=(Attempt(model="llama", provider="nebius", status=200, outcome="ok", sent=True, duration_ms=40),),
    input_tokens=26,
    cached_tokens=9,
    output_tokens=9,
    reasoning_tokens=1,
    cost_nano_usd=None,
    estimated=True,
    queued_ms=3,
    ttft_ms=20,
    duration_ms=41,
    user_hash="u",
)


ADDED = (("own_cost_nano_usd", None), ("price_version", None), ("cache_write_tokens", 0), ("user_hash", None))
"""What closings have told since, and what a row says where they do not."""


def as_lua_packs(text: bytes) -> bytes:
    for most, header in ((0x1F, b""), (0xFF, b"\xd9"), (0xFFFF, b"\xda")):
        if len(text) <= most:
            size = len(text)
            return (bytes([0xA0 | size]) if not header else header + size.to_bytes(1 if most == 0xFF else 2, "big")) + text
    return b"\xdb" + len(text).to_bytes(4, "big") + text


def abandoned(opening: bytes) -> bytes:
    return b"\x95" + opening + pack(1) + pack(26) + pack(7) + pack(33)


def test_an_abandonment_has_cost_what_was_last_reported() -> None:
    blob = b"\x96" + abandoned(as_lua_packs(pack(OPENED)))[1:] + pack(5_000)
    assert decode(entry("abandoned", blob)).cost_nano_usd == 5_000


def entry(kind: str, blob: bytes, request_id: str = "r1") -> dict[bytes, bytes]:
    return {b"kind": kind.encode(), b"id": request_id.encode(), b"blob": blob}


def test_an_opening_makes_a_row_without_an_end() -> None:
    event = decode(entry("open", pack(OPENED)))
    assert (event.rank, event.key, event.project, event.stream) == (Rank.OPEN, "ci", "search", True)
    assert (event.outcome, event.status, event.duration_ms, event.cost_nano_usd) == (None, None, None, None)


def test_a_closing_repeats_its_opening() -> None:
    event = decode(entry("close", pack(CLOSED)))
    opening = decode(entry("open", pack(OPENED)))
    for name in Opened.__struct_fields__:
        assert getattr(event, name) == getattr(opening, name)
    assert (event.rank, event.outcome, event.output_tokens, event.cost_nano_usd) == (Rank.CLOSED, "ok", 9, None)
    assert event.tried == CLOSED.attempts


def test_an_event_has_the_fields_of_what_it_is_read_from_in_their_order() -> None:
    _, *end = ("tried" if name == "attempts" else name for name in Closed.__struct_fields__)
    *opening, last = Opened.__struct_fields__
    assert Event.__struct_fields__ == (*opening, "rank", *end)
    assert last == end[-1] == "user_hash", "both have it"


@pytest.mark.parametrize("kind", ["open", "abandoned"])
def test_two_releases_read_each_others_openings(kind: str) -> None:
    def read(opening: list[object]) -> Event:
        packed = pack(opening)
        return decode(entry(kind, packed if kind == "open" else abandoned(as_lua_packs(packed))))

    whole: list[object] = msgspec.msgpack.decode(pack(OPENED))
    assert read(whole).user_hash == "u"
    assert read(whole[:-1]) == msgspec.structs.replace(read(whole), user_hash=None)
    assert read([*whole, "of a release to come"]) == read(whole)


def test_a_closing_of_a_release_whose_openings_name_no_user_names_its_own() -> None:
    opening, *end = msgspec.msgpack.decode(pack(CLOSED))
    assert decode(entry("close", pack([opening[:-1], *end]))) == decode(entry("close", pack(CLOSED)))


@pytest.mark.parametrize("added", range(1, 5))
def test_two_releases_read_each_others_closings(added: int) -> None:
    packed = pack(msgspec.structs.replace(CLOSED, own_cost_nano_usd=7, price_version="v", cache_write_tokens=3, user_hash="u"))
    whole: list[object] = msgspec.msgpack.decode(packed)
    before = decode(entry("close", pack(whole[:-added])))
    assert before == msgspec.structs.replace(decode(entry("close", packed)), **dict(ADDED[-added:]))
    assert decode(entry("close", pack([*whole, "of a release to come"]))) == decode(entry("close", packed))


@pytest.mark.parametrize("padding", [0, 40, 300, 70_000])
def test_an_abandonment_holds_the_opening_as_lua_packs_strings(padding: int) -> None:
    opening = pack(msgspec.structs.replace(OPENED, project="p" * padding))
    for packed in (as_lua_packs(opening), pack(opening)):
        event = decode(entry("abandoned", abandoned(packed)))
        assert (event.rank, event.outcome, event.estimated) == (Rank.ABANDONED, "abandoned", True)
        assert (event.input_tokens, event.output_tokens, event.cost_nano_usd) == (26, 7, None)
        assert event.org == "acme"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {b"kind": b"close", b"id": b"r1"},
        entry("paid", pack(CLOSED)),
        entry("close", b""),
        entry("close", pack(OPENED)),
        entry("close", pack(msgspec.structs.replace(CLOSED, outcome="splendid"))),
        entry("open", pack(OPENED), request_id="r2"),
        entry("abandoned", abandoned(pack(7))),
        entry("abandoned", abandoned(b"\xa1\xff")),
        entry("abandoned", abandoned(b"\xa0")),
        entry("abandoned", abandoned(b"\x91" * 100_000)),
    ],
)
def test_what_is_no_event_is_named_without_its_content(fields: dict[bytes, bytes]) -> None:
    with pytest.raises(UndecodableError) as caught:
        decode(fields)
    assert "acme" not in str(caught.value)


@given(st.binary(max_size=64), st.sampled_from(["open", "close", "abandoned"]))
def test_any_bytes_are_read_or_refused(blob: bytes, kind: str) -> None:
    with pytest.raises(UndecodableError):
        decode(entry(kind, blob))


EVENT = decode(entry("open", pack(OPENED)))


def events() -> st.SearchStrategy[list[Event]]:
    one = st.builds(
        lambda n, rank: msgspec.structs.replace(EVENT, request_id=f"r{n}", rank=rank),
        st.integers(0, 3),
        st.sampled_from([rank.value for rank in Rank]),
    )
    return st.lists(one, max_size=12)


@given(st.data())
def test_the_order_of_arrival_decides_nothing(data: st.DataObject) -> None:
    arrived = data.draw(events())
    assert merged(data.draw(st.permutations(arrived))) == merged(arrived)


@given(events(), st.integers(0, 12))
def test_batches_merge_as_one_and_replay_changes_nothing(arrived: list[Event], cut: int) -> None:
    in_two = merged([*merged(arrived[:cut]), *merged(arrived[cut:])])
    assert in_two == merged(arrived) == merged([*arrived, *arrived])
    assert {event.request_id: event.rank for event in in_two} == {
        event.request_id: max(each.rank for each in arrived if each.request_id == event.request_id) for event in arrived
    }


@given(events())
def test_the_higher_rank_wins_and_of_equals_the_first(arrived: list[Event]) -> None:
    held: Event | None = None
    for event in arrived:
        kept = better(held, event)
        assert kept.rank == max(event.rank, -1 if held is None else held.rank)
        assert kept is held if held is not None and held.rank == event.rank else True
        held = kept


def test_an_attempt_says_why_it_was_not_made_and_older_events_do_without() -> None:
    refused = Attempt(model="m", provider="p", status=429, outcome="refused", sent=False, reason=Reason(cause="open"))
    for attempt in (refused, *CLOSED.attempts):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(attempt), type=Attempt) == attempt
    assert set(msgspec.to_builtins(CLOSED.attempts[0])) == {"model", "provider", "status", "outcome", "sent", "duration_ms"}
