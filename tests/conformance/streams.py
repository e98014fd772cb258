"""Whether an event stream is what a row expects of it. Everything that does not fit is told."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tests.conformance.cases import strict_json
from tests.conformance.matching import differences, matches, shown

END_MARK = "[DONE]"


class Stream(msgspec.Struct, frozen=True):
    """An event stream's payloads. `marks` are the places of the end marks among all that came."""

    payloads: list[dict[str, Any]]
    marks: list[int]


def check_stream(expect: Mapping[str, Any], text: str) -> Iterator[str]:
    """Yield what is amiss in an event stream."""
    try:
        stream = read_stream(text)
    except ValueError as broken:
        yield f"stream: {broken}"
        return
    whole = [payload for payload in stream.payloads if not payload.get("error")]
    yield from check_events(expect, stream.payloads)
    for place, payload in enumerate(whole):
        yield from differences(expect.get("every", {}), payload, f"stream[{place}]")
    if "same_id" in expect and not is_one_id([payload.get("id") for payload in whole]):
        yield f"stream: ids are {[payload.get('id') for payload in whole]}"
    yield from check_choices(expect, whole)
    if "service_tier" in expect:
        tiers = [payload["service_tier"] for payload in whole if "service_tier" in payload]
        if not tiers or any(tier != expect["service_tier"] for tier in tiers):
            yield f"stream: service tiers are {tiers}"
    if "usage" in expect and not USAGE[expect["usage"]](stream.payloads):
        yield f"stream: usage is not {expect['usage']}"
    if stream.marks != ([len(stream.payloads)] if expect["done"] else []):
        yield f"stream: end marks at {stream.marks} of {len(stream.payloads)} payloads"


def is_one_id(ids: Sequence[Any]) -> bool:
    """Return whether all ids are the same text."""
    return bool(ids) and bool(ids[0]) and isinstance(ids[0], str) and all(found == ids[0] for found in ids)


def check_events(expect: Mapping[str, Any], payloads: Sequence[Any]) -> Iterator[str]:
    """Yield what is amiss in the order of events."""
    events = expect.get("events", [])
    if "exact" in expect:
        yield from differences(events, list(payloads), "stream")
        return
    rest = iter(payloads)
    for place, event in enumerate(events):
        if not any(matches(event, payload) for payload in rest):
            yield f"stream: event {place} did not come: {shown(event)}"
            return


def check_choices(expect: Mapping[str, Any], payloads: Sequence[Any]) -> Iterator[str]:
    """Yield what is amiss in the texts and the ends of choices."""
    texts: dict[str, str] = defaultdict(str)
    finishes: dict[str, str] = {}
    for choice in choices_of(payloads):
        index = str(choice.get("index"))
        texts[index] += str(choice.get("text") or (choice.get("delta") or {}).get("content") or "")
        reason = choice.get("finish_reason")
        if reason is not None:
            # A choice that ends twice has no end that a row could expect.
            finishes[index] = f"{finishes[index]} and {reason}" if index in finishes else reason
    if "text_by_index" in expect:
        yield from differences(expect["text_by_index"], dict(texts), "stream texts")
    if "finish_by_index" in expect:
        yield from differences(expect["finish_by_index"], finishes, "stream finishes")


def choices_of(payloads: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the choices of all payloads."""
    for payload in payloads:
        yield from (choice for choice in payload.get("choices") or () if isinstance(choice, dict))


def read_stream(text: str) -> Stream:
    """Read an event stream. Raises `ValueError` for a payload that is no JSON object, and for an event that is cut off."""
    payloads: list[dict[str, Any]] = []
    marks: list[int] = []
    *blocks, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n")
    if rest.strip("\n"):
        raise ValueError(f"{shown(rest)} is cut off")
    for block in blocks:
        lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        data = "\n".join(lines)
        if data == END_MARK:
            marks.append(len(payloads))
        elif lines:
            payloads.append(strict_object(data))
    return Stream(payloads, marks)


def strict_object(text: str) -> dict[str, Any]:
    """Read a JSON object. Raises `ValueError`."""
    match strict_json(text):
        case dict(found):
            return found
        case _:
            raise ValueError(f"{shown(text)} is no object")


def usage_is_absent(payloads: Sequence[Any]) -> bool:
    """Return whether no payload tells a usage."""
    return all(payload.get("usage") is None for payload in payloads)


def usage_is_trailing(payloads: Sequence[Any]) -> bool:
    """Return whether the last payload alone tells the usage, and nothing else."""
    return (
        bool(payloads)
        and usage_is_absent(payloads[:-1])
        and bool(payloads[-1].get("usage"))
        and payloads[-1].get("choices") == []
    )


def usage_is_on_finish(payloads: Sequence[Any]) -> bool:
    """Return whether usage comes with a finish reason, and every payload has choices."""
    telling = [payload for payload in payloads if payload.get("usage") is not None]
    ends = all(any(choice.get("finish_reason") for choice in payload.get("choices") or ()) for payload in telling)
    return bool(telling) and ends and all(payload.get("choices") for payload in payloads)


USAGE: Mapping[str, Callable[[Sequence[Any]], bool]] = {
    "none": usage_is_absent,
    "trailing": usage_is_trailing,
    "finish": usage_is_on_finish,
    "any": lambda payloads: not usage_is_absent(payloads),
}
