"""Requests of Responses, for tests: what is sent for them, and what a client reads of what comes back."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Provider, Secret, Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.providers import DIALECTS, NATURES
from gateway.providers.protocol import Answer, Call, Edits
from gateway.providers.responses_stream import ResponsesStream
from gateway.wire.request import Endpoint, parse

OPENAI = Provider(
    name="o",
    dialect="openai",
    nature=NATURES["openai"],
    base_url="http://up.example/v1",
    api_key=Secret("sk-up"),
    endpoints=frozenset({Endpoint.CHAT, Endpoint.RESPONSES}),
)
AZURE = replace(OPENAI, dialect="azure", nature=NATURES["azure"])
EDITS = Edits(
    endpoint=Endpoint.RESPONSES,
    model="public",
    tier="default",
    id="ours",
    show_usage=False,
    tariff=Tariff(Price(input=1000, output=2000)),
    upstream_model="up-internal",
)

COST = 10e-9 * 1000 + 20e-9 * 2000
"""In dollars, of what `tests.fakes.responses.USAGE` says."""


def called(at: Provider = OPENAI, tier: Tier = Tier.DEFAULT, **fields: object) -> Call:
    request = parse(Endpoint.RESPONSES, msgspec.json.encode({"model": "public", "input": "Say hi", **fields}))
    deployment = Deployment(id="d", provider=at, upstream_model="up-internal")
    return DIALECTS[at.dialect](at).call(request, deployment, tier, last=True)


def sent(at: Provider = OPENAI, tier: Tier = Tier.DEFAULT, **fields: object) -> dict[str, Any]:
    """Return the body that is sent for a request of these fields."""
    return dict(msgspec.json.decode(called(at, tier, **fields).body))


def answer(body: bytes, edits: Edits = EDITS) -> Answer | Failed:
    """Return what a provider's whole answer comes to."""
    return DIALECTS["openai"](OPENAI).answer(body, edits)


class Played(msgspec.Struct):
    """What became of a stream."""

    reader: ResponsesStream
    out: bytes
    committed: bool
    failed: Failed | None
    next_number: int

    @property
    def known(self) -> tuple[object, ...]:
        """Return what the gateway itself goes by."""
        reader = self.reader
        figures = (reader.usage, reader.tier, reader.output_bytes, reader.strange_events, self.next_number)
        return (*figures, reader.finished, reader.done, self.committed, self.failed)


def play(pieces: Iterable[bytes], edits: Edits = EDITS, most_event_bytes: int = 4096) -> Played:
    """Feed pieces to a fresh reader, then the end of the body, until it fails or is done."""
    reader = ResponsesStream(edits, most_event_bytes)
    out: list[bytes] = []
    steps = (reader.feed(piece) if piece is not None else reader.end() for piece in (*pieces, None))
    for step in steps:
        out.append(step.out)
        assert step.committed or not step.out
        if step.failed is not None or reader.done:
            return Played(reader, b"".join(out), step.committed, step.failed, step.next_number)
    raise AssertionError("a stream ends in a failure or in its end")
