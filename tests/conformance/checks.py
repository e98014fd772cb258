"""Whether what was seen is what a row expects: the answer, and what the providers received.

Everything that does not fit is told; a row holds when nothing is.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import msgspec

from tests.conformance.cases import Row, strict_json
from tests.conformance.matching import differences, header_differences, same, shown
from tests.conformance.providers import Received
from tests.conformance.streams import check_stream


class Answer(msgspec.Struct, frozen=True):
    """What came back. Names of headers are as they came."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.body.decode("utf-8", "replace")


def check(row: Row, answer: Answer, received: Sequence[Received]) -> Iterator[str]:
    """Yield everything in which this is not what the row expects."""
    expect = row.expect
    yield from differences(expect["status"], answer.status, "status")
    if "error" in expect:
        yield from check_error(expect, answer)
    yield from check_received(row, received)
    yield from check_response(expect.get("response", {}), answer)
    if "stream" in expect:
        yield from check_stream(expect["stream"], answer.text)


def check_error(expect: Mapping[str, Any], answer: Answer) -> Iterator[str]:
    """Yield what is amiss in an error and its details."""
    body = json_of(answer)
    yield from differences(expect["error"], member(body, "error"), "error")
    if "detail_locs" in expect or "detail_loc_prefixes" in expect:
        yield from check_details(expect, member(body, "detail"))


def check_details(expect: Mapping[str, Any], details: Any) -> Iterator[str]:
    """Yield what is amiss in the list of bad fields."""
    if not isinstance(details, list):
        yield f"detail: {shown(details)} is no list"
        return
    locs = [member(entry, "loc") for entry in details]
    if "detail_locs" in expect:
        yield from differences({"$set": [{"$eq": loc} for loc in expect["detail_locs"]]}, locs, "detail locs")
    if "detail_loc_prefixes" in expect:
        prefixes = expect["detail_loc_prefixes"]
        yield from (f"detail: nothing at {prefix}" for prefix in prefixes if not any(begins(loc, prefix) for loc in locs))
        yield from (f"detail: {loc} is not expected" for loc in locs if not any(begins(loc, prefix) for prefix in prefixes))


def begins(loc: Any, prefix: list[Any]) -> bool:
    """Return whether a location begins with a prefix."""
    return isinstance(loc, list) and same(prefix, loc[: len(prefix)])


def check_response(expect: Mapping[str, Any], answer: Answer) -> Iterator[str]:
    """Yield what is amiss in the answer itself."""
    if "json_subset" in expect:
        yield from differences(expect["json_subset"], json_of(answer), "body")
    for name in expect.get("json_absent", []):
        if is_there(json_of(answer), name):
            yield f"body.{name} is there"
    yield from header_differences(expect.get("headers", {}), answer.headers, "header")
    given = {name.lower() for name, _ in answer.headers}
    yield from (f"header.{name} is there" for name in expect.get("headers_absent", []) if name.lower() in given)
    yield from (f"body shows {text!r}" for text in expect.get("text_absent", []) if text in answer.text)


def check_received(row: Row, received: Sequence[Received]) -> Iterator[str]:
    """Yield what is amiss in the calls that the providers received."""
    match row.expect["upstream_received"]:
        case None:
            if received:
                yield f"upstream: {len(received)} calls, none expected"
        case dict(expected):
            if not received:
                yield "upstream: no call"
            for call in received:
                yield from check_call(expected, call, row.setup.provider)
        case expected:
            yield from check_calls(row, expected, received)


def check_calls(row: Row, expected: Sequence[Mapping[str, Any]], received: Sequence[Received]) -> Iterator[str]:
    """Yield what is amiss where exactly these calls are expected."""
    if len(expected) != len(received):
        yield f"upstream: {len(received)} calls, not {len(expected)}: {[call.provider for call in received]}"
        return
    orders = permutations(received) if row.expect.get("received_order") == "any" else [tuple(received)]
    # Of several orders the one with the fewest faults is told.
    yield from min(([*check_order(row, expected, order)] for order in orders), key=len)


def check_order(row: Row, expected: Sequence[Mapping[str, Any]], received: Sequence[Received]) -> Iterator[str]:
    """Yield what is amiss in calls that came in this order."""
    for want, call in zip(expected, received, strict=True):
        yield from check_call(want, call, row.setup.provider)


def check_call(expect: Mapping[str, Any], call: Received, provider: str) -> Iterator[str]:
    """Yield what is amiss in one call."""
    where = f"upstream {call.provider}"
    yield from differences(expect.get("provider", provider), call.provider, "provider")
    yield from differences(expect.get("path", call.request.path), call.request.path, f"{where} path")
    if "body_subset" in expect:
        yield from differences(expect["body_subset"], call.json, f"{where} body")
    yield from (f"{where} body.{name} is there" for name in expect.get("body_absent", []) if is_there(call.json, name))
    yield from header_differences(expect.get("headers_subset", {}), call.request.headers, f"{where} header")
    absent = expect.get("headers_absent", [])
    yield from (f"{where} header.{name} is there" for name in absent if call.request.header(name.lower()) is not None)
    raw = call.request.body
    yield from (f"{where} body does not hold {text!r}" for text in expect.get("raw_contains", []) if text.encode() not in raw)


def json_of(answer: Answer) -> Any:
    """Return the body's value; a body that is none is told as what it is."""
    try:
        return strict_json(answer.body.decode())
    except ValueError:
        return f"no JSON: {answer.text}"


def member(value: Any, name: str) -> Any:
    """Return a member, None where there is none."""
    return value.get(name) if isinstance(value, dict) else None


def is_there(value: Any, dotted: str) -> bool:
    """Return whether a value has a member, of a member where the name has dots."""
    first, _, below = dotted.partition(".")
    if not isinstance(value, dict) or first not in value:
        return False
    return not below or is_there(value[first], below)
