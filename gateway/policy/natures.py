"""What a wire dialect is by nature, whoever speaks it: its endpoints, and what of a request it has no words for.

A deployment whose dialect cannot say a request is left out of the plan; a request that none of its model's can say is refused by
the field. Fields at a value that asks for nothing need no words. Pure.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from gateway.wire.request import Endpoint, InferenceRequest

Asks = Callable[[InferenceRequest], str | None]
"""Returns the field by which a request asks for something, None where it does not."""


class Nature(msgspec.Struct, frozen=True, kw_only=True):
    """One dialect's.

    `lacks` are names of `ASKS`; `bounded`: it takes no request without a bound of the answer; `idle_quirks` are the fields of
    `catalogue.Quirks` that it has no use for, `idle_capabilities` those of the configuration's capabilities.
    """

    endpoints: frozenset[Endpoint] = frozenset(Endpoint)
    lacks: frozenset[str] = frozenset()
    bounded: bool = False
    idle_quirks: tuple[str, ...] = ()
    idle_capabilities: tuple[str, ...] = ()

    def without_store(self) -> "Nature":
        """Return the nature of a provider that may keep nothing, so that there is nothing to come back to."""
        return replace(self, lacks=self.lacks | {"kept"})

    def served(self, listed: Iterable[Endpoint]) -> frozenset[Endpoint]:
        """Return what a provider serves for which these are listed: one whose chat is Messages serves those as they are too."""
        found = frozenset(listed)
        return found | ({Endpoint.MESSAGES} & self.endpoints) if Endpoint.CHAT in found else found


def _filled(*names: str) -> Asks:
    """Return what finds the first of these fields that asks for something: neither false nor zero nor empty."""
    return lambda request: next((name for name in names if request.fields.get(name)), None)


def _logprobs(request: InferenceRequest) -> str | None:
    asked = request.fields.get("logprobs")
    # On completions 0 asks for the sampled token's; on chat false asks for nothing.
    return "logprobs" if asked is not None and asked is not False else None


def _format(*kinds: str) -> Asks:
    def asks(request: InferenceRequest) -> str | None:
        asked = request.fields.get("response_format")
        return "response_format" if isinstance(asked, dict) and asked.get("type") in kinds else None

    return asks


def _sound(request: InferenceRequest) -> str | None:
    modalities = request.fields.get("modalities")
    return "modalities" if isinstance(modalities, bytes) and b'"audio"' in modalities else _filled("audio")(request)


def _penalty(request: InferenceRequest) -> str | None:
    return "repetition_penalty" if request.fields.get("repetition_penalty", 1) != 1 else None


def _blank_stop(request: InferenceRequest) -> str | None:
    sequences = request.fields.get("stop")
    return "stop" if isinstance(sequences, tuple) and any(not sequence.strip() for sequence in sequences) else None


KEPT = ("previous_response_id", "conversation")
"""What asks for something that a provider keeps of other answers."""

ASKS: Mapping[str, Asks] = {
    "choices": lambda request: "n" if request.n > 1 else None,
    "logprobs": _logprobs,
    "logit_bias": _filled("logit_bias"),
    "penalties": _filled("presence_penalty", "frequency_penalty"),
    "repetition_penalty": _penalty,
    "token_rules": _filled("min_p", "stop_token_ids"),
    "functions": _filled("functions"),
    "json_object": _format("json_object"),
    "regex": _format("regex"),
    "sound": _sound,
    "web_search": _filled("web_search_options"),
    "blank_stop": _blank_stop,
    "kept": _filled(*KEPT),
}
"""What a request may ask for that a dialect may have no words for."""

ASKING = frozenset(
    {"n", "logprobs", "logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty", "min_p", "stop_token_ids"}
    | {"functions", "response_format", "modalities", "audio", "web_search_options", "stop", *KEPT}
)
"""All fields that `ASKS` looks at: a request with none of them needs no closer look."""


def asks_much(request: InferenceRequest) -> bool:
    """Return whether a request may ask for more than every provider can be told."""
    return not ASKING.isdisjoint(request.fields)


def unsaid(nature: Nature, request: InferenceRequest) -> str | None:
    """Return the field of a request that a provider of this nature cannot be told, None where it can be told all of it."""
    return next((field for name in sorted(nature.lacks) if (field := ASKS[name](request)) is not None), None)
