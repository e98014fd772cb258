"""Completions over chat, for tests: what is asked, what a provider with chat alone says to it, and what comes of that."""

from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Provider, Quirks, Secret, Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.providers.openai import OpenAI
from gateway.providers.protocol import Answer, Call, Edits
from gateway.wire.request import Endpoint, InferenceRequest, parse
from tests.unit.providers.streams import usage

PROVIDER = Provider(name="c", dialect="openai", base_url="http://up.example/v1", api_key=Secret("sk-upstream"))
EDITS = Edits(
    endpoint=Endpoint.COMPLETIONS,
    model="public",
    tier="default",
    id="ours",
    show_usage=False,
    tariff=Tariff(Price(input=1000, output=2000)),
    upstream_model="up-internal",
)


def asked(prompt: object = "Say hi", **fields: object) -> InferenceRequest:
    return parse(Endpoint.COMPLETIONS, msgspec.json.encode({"model": "public", "prompt": prompt, **fields}))


def called(request: InferenceRequest, at: Provider = PROVIDER) -> Call:
    deployment = Deployment(id="d", provider=at, upstream_model="up-internal")
    return OpenAI(at).call(request, deployment, Tier.DEFAULT, last=True)


def sent(request: InferenceRequest, at: Provider = PROVIDER) -> dict[str, Any]:
    """Return the body of the first call as a value."""
    return dict(msgspec.json.decode(called(request, at).body))


def provider(**changed: Any) -> Provider:
    quirks = changed.pop("quirks", {})
    return replace(PROVIDER, quirks=Quirks(**quirks), **changed)


def says(content: str | None, finish: str | None = "stop", index: int | None = 0, **message: object) -> dict[str, object]:
    """One choice of a whole answer; `logprobs` are the choice's own."""
    logprobs = message.pop("logprobs", None)
    said = {"role": "assistant", "content": content, **message}
    return {"index": index, "message": said, "logprobs": logprobs, "finish_reason": finish}


def chat(*choices: dict[str, object], **members: object) -> bytes:
    """A whole chat answer; `...` leaves a member out."""
    found = {
        "id": "chatcmpl-up1",
        "object": "chat.completion",
        "created": 7,
        "model": "up-internal",
        "choices": choices or (says("Hello"),),
        "usage": usage(),
        **members,
    }
    return msgspec.json.encode({name: value for name, value in found.items() if value is not ...})


def answer(request: InferenceRequest, *bodies: bytes, at: Provider = PROVIDER, edits: Edits = EDITS) -> Answer | Failed:
    """Return what the bodies of all calls come to."""
    call = called(request, at)
    assert call.translation is not None
    assert len(call.further) == len(bodies) - 1
    for body in bodies[:-1]:
        outcome = call.translation.take(body, edits)
        if outcome is not None:
            return outcome
    last = call.translation.take(bodies[-1], edits)
    assert last is not None
    return last


def text_of(request: InferenceRequest, *bodies: bytes, at: Provider = PROVIDER) -> dict[str, Any]:
    """Return the client's answer as a value."""
    found = answer(request, *bodies, at=at)
    assert isinstance(found, Answer)
    return dict(msgspec.json.decode(found.body))


def token(text: str, logprob: float | None = -0.5, *top: tuple[str, float], **more: object) -> dict[str, object]:
    alternatives = [{"token": other, "logprob": value, "bytes": None} for other, value in top]
    return {"token": text, "logprob": logprob, "bytes": None, "top_logprobs": alternatives, **more}


def scored(*tokens: dict[str, object]) -> dict[str, object]:
    return {"content": [*tokens], "refusal": None}
