"""A tier that a stream names late, or never, by every way that a stream goes: what goes out names what was told up to there.

Wherever reads are cut, the same goes out, and the last word is what is charged.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.policy.catalogue import Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import Echo, Echoes
from gateway.providers import DIALECTS
from gateway.providers.protocol import Edits, StreamReader
from gateway.wire.request import Endpoint
from tests.fakes.responses import encode, response
from tests.unit.providers import asking, chatting, messages, responding
from tests.unit.providers.streams import DONE, chunk, ends, event, role, says, usage

HIGH, LOW = Echo(Tier.PRIORITY, 2.0), Echo(Tier.DEFAULT, 1.0)
WORDS = {"priority": HIGH, "auto": HIGH, "default": LOW, "standard_only": LOW}
APPLIED = Tariff(Price(input=1000, output=2000), HIGH, Echoes(WORDS, LOW))
ALWAYS = Tariff(Price(input=1000, output=2000), HIGH, Echoes({"default": LOW, "standard_only": LOW}))
DEAR, USUAL = b'"estimated_cost":0.0001', b'"estimated_cost":0.00005'


def chat(edits: Edits) -> StreamReader:
    return DIALECTS["openai"](asking.CHAT).reader(edits)


def over_chat(edits: Edits) -> StreamReader:
    translation = chatting.called(chatting.asked(stream=True)).translation
    assert translation is not None
    return translation.reader(replace(edits, endpoint=Endpoint.COMPLETIONS))


def messages_over_chat(edits: Edits) -> StreamReader:
    translation = asking.called(asking.asked(stream=True)).translation
    assert translation is not None
    return translation.reader(replace(edits, endpoint=Endpoint.MESSAGES))


def anthropic(edits: Edits) -> StreamReader:
    return DIALECTS["anthropic"](asking.CLAUDE).reader(edits)


def passed(edits: Edits) -> StreamReader:
    return DIALECTS["anthropic"](asking.CLAUDE).reader(replace(edits, endpoint=Endpoint.MESSAGES))


def responses(edits: Edits) -> StreamReader:
    return DIALECTS["openai"](responding.OPENAI).reader(replace(edits, endpoint=Endpoint.RESPONSES))


Told = dict[str, Any]


def of_chat(first: Told, last: Told) -> bytes:
    said = (role() + says("a", **first), says("b"), ends(**last), chunk([], usage=usage()), DONE)
    return b"".join(said)


def of_claude(first: Told, last: Told) -> bytes:
    return messages.start(**first) + messages.text("a") + messages.text("b", 1) + messages.end(**last)


def of_responses(first: Told, last: Told) -> bytes:
    silent: dict[str, object] = {"service_tier": None}
    told = (
        {"type": "response.created", "response": response(**{**silent, **first, "usage": None})},
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.completed", "response": response(**{**silent, **last})},
    )
    return b"".join(event(encode(each)) for each in told)


WAYS = [
    pytest.param(chat, of_chat, "priority", "default", id="chat"),
    pytest.param(over_chat, of_chat, "priority", "default", id="completions over chat"),
    pytest.param(messages_over_chat, of_chat, "priority", "default", id="messages over chat"),
    pytest.param(anthropic, of_claude, "priority", "standard", id="chat by messages"),
    pytest.param(passed, of_claude, "priority", "standard", id="messages"),
    pytest.param(responses, of_responses, "priority", "default", id="responses"),
]


def named(word: str | None) -> Told:
    return {} if word is None else {"service_tier": word}


def played(make: Callable[[Edits], StreamReader], tariff: Tariff, pieces: Iterator[bytes]) -> tuple[bytes, str | None]:
    shown = Edits(endpoint=Endpoint.CHAT, model="public", tier="priority", id="ours", show_usage=True, tariff=tariff)
    reader = make(shown)
    steps = [reader.feed(piece) for piece in pieces]
    assert reader.done
    assert not any(step.failed for step in steps)
    return b"".join(step.out for step in steps), reader.tier


@pytest.mark.parametrize(("make", "stream", "high", "low"), WAYS)
@pytest.mark.parametrize(
    ("tariff", "first", "last", "begins", "ends_in"),
    [
        pytest.param(APPLIED, False, False, LOW, LOW, id="silent, where that is not applied"),
        pytest.param(APPLIED, True, False, HIGH, HIGH, id="named first"),
        pytest.param(APPLIED, False, True, LOW, HIGH, id="named last"),
        pytest.param(ALWAYS, False, False, HIGH, HIGH, id="silent, where that says nothing"),
        pytest.param(ALWAYS, False, True, HIGH, HIGH, id="the tier that was asked for"),
        pytest.param(ALWAYS, False, None, HIGH, LOW, id="a lower one, last"),
    ],
)
def test_what_goes_out_names_what_was_told_up_to_there(
    make: Callable[[Edits], StreamReader],
    stream: Callable[[Told, Told], bytes],
    high: str,
    low: str,
    tariff: Tariff,
    first: bool,
    last: bool | None,
    begins: Echo,
    ends_in: Echo,
) -> None:
    told = stream(named(high if first else None), named(low if last is None else high if last else None))
    whole, tier = played(make, tariff, iter([told]))
    names = [event.partition(b'"service_tier":"')[2].partition(b'"')[0] for event in whole.split(b"\n\n")]
    seen = ["default" if name == b"standard" else name.decode() for name in names if name]
    assert (seen[0], seen[-1]) == (begins.tier, ends_in.tier)
    assert (DEAR if ends_in is HIGH else USUAL) in whole
    assert (tariff.echo(tier) or HIGH) == ends_in, "what is shown last is charged"
    cuts = ([0, place, len(told)] for place in range(1, len(told)))
    for places in (range(len(told) + 1), *cuts):
        assert played(make, tariff, (told[a:b] for a, b in pairwise(places))) == (whole, tier)
