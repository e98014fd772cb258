"""Messages requests, for tests: what is asked, what is sent for it, and what a client reads of what comes back."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Provider, Secret, Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.providers import DIALECTS, NATURES
from gateway.providers.protocol import Answer, Call, Edits, Step, StreamReader
from gateway.wire.request import Endpoint, InferenceRequest, parse

CHAT = Provider(name="c", dialect="openai", nature=NATURES["openai"], base_url="http://up.example/v1", api_key=Secret("sk-up"))
CLAUDE = replace(
    CHAT, dialect="anthropic", nature=NATURES["anthropic"], tiers={Tier.DEFAULT: "standard_only", Tier.PRIORITY: "auto"}
)
EDITS = Edits(
    endpoint=Endpoint.MESSAGES,
    model="public",
    tier="default",
    id="ours",
    show_usage=False,
    tariff=Tariff(Price(input=1000, output=2000)),
    upstream_model="up-internal",
)


def asked(**fields: object) -> InferenceRequest:
    body = {"model": "public", "max_tokens": 100, "messages": [{"role": "user", "content": "Say hi"}], **fields}
    return parse(Endpoint.MESSAGES, msgspec.json.encode(body))


def called(request: InferenceRequest, at: Provider = CHAT, tier: Tier = Tier.DEFAULT) -> Call:
    deployment = Deployment(id="d", provider=at, upstream_model="up-internal")
    return DIALECTS[at.dialect](at).call(request, deployment, tier, last=True)


def sent(at: Provider = CHAT, **fields: object) -> dict[str, Any]:
    """Return the body that is sent for a request of these fields."""
    return dict(msgspec.json.decode(called(asked(**fields), at).body))


def answer(body: bytes, at: Provider = CHAT, edits: Edits = EDITS, **fields: object) -> Answer | Failed:
    """Return what a provider's whole answer comes to."""
    call = called(asked(**fields), at)
    if call.translation is None:
        return DIALECTS[at.dialect](at).answer(body, edits)
    found = call.translation.take(body, edits)
    assert found is not None
    return found


def message(body: bytes, at: Provider = CHAT, edits: Edits = EDITS, **fields: object) -> dict[str, Any]:
    """Return the client's answer as a value."""
    found = answer(body, at, edits, **fields)
    assert isinstance(found, Answer), found
    return dict(msgspec.json.decode(found.body))


class Played(msgspec.Struct):
    """What became of a stream."""

    reader: StreamReader
    out: bytes
    committed: bool
    failed: Failed | None

    @property
    def known(self) -> tuple[object, ...]:
        """Return what the gateway itself goes by."""
        reader = self.reader
        return reader.usage, reader.tier, reader.output_bytes, reader.finished, reader.done, self.committed, self.failed


def play(pieces: Iterable[bytes], at: Provider = CHAT, edits: Edits = EDITS, **fields: object) -> Played:
    """Feed pieces to a fresh reader, then the end of the body, until it fails or is done."""
    call = called(asked(stream=True, **fields), at)
    reader = (call.translation or DIALECTS[at.dialect](at)).reader(edits)
    out: list[bytes] = []

    def take(step: Step) -> Played | None:
        out.append(step.out)
        assert step.committed or not step.out
        ended = step.failed is not None or reader.done
        return Played(reader, b"".join(out), step.committed, step.failed) if ended else None

    for piece in pieces:
        if found := take(reader.feed(piece)):
            return found
    return take(last := reader.end()) or Played(reader, b"".join(out), last.committed, last.failed)
