"""What a wire dialect is by nature, whoever speaks it: its endpoints, and what of a request it has no words for.

A deployment whose dialect cannot say a request is left out of the plan; a request that none of its model's can say is refused by
the field. Fields at a value that asks for nothing need no words. Pure.
"""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec
from msgspec.structs import replace

from gateway.wire.request import Endpoint, InferenceRequest
from gateway.wire.talk import SYSTEM_ROLES, begun, beyond_messages, has_blank, has_custom_tool, is_openais_choice

Asks = Callable[[InferenceRequest], str | None]
"""Returns the field by which a request asks for something, None where it does not."""


class Nature(msgspec.Struct, frozen=True, kw_only=True):
    """One dialect's.

    `lacks` are names of `ASKS`; `bounded`: it takes no request without a bound of the answer; `idle_quirks` are the fields of
    `catalogue.Quirks` that it has no use for, `idle_capabilities` those of the configuration's capabilities; `models` are such
    capabilities by patterns of its models' names, the first that fits; `passes_fields`: it sends the client's own fields, of
    which a provider may lack some.
    """

    endpoints: frozenset[Endpoint] = frozenset(Endpoint)
    lacks: frozenset[str] = frozenset()
    bounded: bool = False
    idle_quirks: tuple[str, ...] = ()
    idle_capabilities: tuple[str, ...] = ()
    passes_fields: bool = True
    models: Mapping[str, Mapping[str, object]] = {}

    @property
    def looks_closer(self) -> bool:
        """Return whether it takes a look into what most requests have to tell whether all of it can be said."""
        return not COMMON.isdisjoint(self.lacks)

    def known_of(self, upstream_model: str) -> Mapping[str, object]:
        """Return the capabilities that are known of a model by its name."""
        return next((can for pattern, can in self.models.items() if fnmatchcase(upstream_model, pattern)), {})

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


def _custom_tools(request: InferenceRequest) -> str | None:
    return "tools" if has_custom_tool(request.members.value("tools") or b"") else None


def _allowed_tools(request: InferenceRequest) -> str | None:
    return "tool_choice" if is_openais_choice(request.members.value("tool_choice") or b"") else None


def _turns(request: InferenceRequest) -> str | None:
    if request.endpoint is Endpoint.CHAT:
        return beyond_messages(request.members.value("messages") or b"")
    return "prompt" if request.endpoint is Endpoint.COMPLETIONS and has_blank(request.members.value("prompt") or b"") else None


def _begun_schema(request: InferenceRequest) -> str | None:
    """Return the field of a schema for an answer whose beginning is given: the whole could not be held to it."""
    if request.endpoint is not Endpoint.CHAT or _format("json_schema")(request) is None:
        return None
    is_begun = begun(request.members.value("messages") or b"", SYSTEM_ROLES) is not None
    return "response_format" if is_begun else None


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
    "begun_schema": _begun_schema,
    "custom_tools": _custom_tools,
    "allowed_tools": _allowed_tools,
    "turns": _turns,
}
"""What a request may ask for that a dialect may have no words for."""

COMMON = frozenset({"custom_tools", "allowed_tools", "turns"})
"""What is asked for inside fields that most requests have: looked for only where a deployment lacks it."""

ASKING = frozenset(
    {"n", "logprobs", "logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty", "min_p", "stop_token_ids"}
    | {"functions", "response_format", "modalities", "audio", "web_search_options", "stop", *KEPT}
)
"""All fields that `ASKS` looks at, those of `COMMON` aside: a request with none of them needs no closer look."""


def asks_much(request: InferenceRequest) -> bool:
    """Return whether a request may ask for more than every provider can be told."""
    return not ASKING.isdisjoint(request.fields)


def unsaid(nature: Nature, request: InferenceRequest) -> str | None:
    """Return the field of a request that a provider of this nature cannot be told, None where it can be told all of it."""
    return next((field for name in sorted(nature.lacks) if (field := ASKS[name](request)) is not None), None)
