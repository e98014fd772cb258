"""The fields of a body that a provider refuses although its dialect has them: `providers.*.lacks`.

Hints are left out there and reported. What would change the answer takes a request to other deployments, and is a 400 where
there are none (decisions 38 and 39). A value that asks for nothing is left out without a word. Pure.
"""

from collections.abc import Mapping

import msgspec

from gateway.wire.request import TABLES, InferenceRequest

HINTS = frozenset(
    {"metadata", "prediction", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "return_tokens_as_token_ids"}
    | {"safety_identifier", "seed", "store", "user", "verbosity"}
)
"""What an answer can do without."""

NEEDED = frozenset(
    {"model", "models", "messages", "prompt", "input", "stream", "stream_options", "service_tier", "fail_fast"}
    | {"max_tokens", "max_completion_tokens", "max_output_tokens"}
)
"""What the gateway itself sends or obeys: other settings say how."""

IDLE: Mapping[str, tuple[object, ...]] = {
    "temperature": (None, 1),
    "top_p": (None, 1),
    "top_k": (None, 0, -1),
    "min_p": (None, 0),
    "n": (None, 1),
    "best_of": (None, 1),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "tool_choice": (None, "auto"),
    "parallel_tool_calls": (None, True),
    "response_format": (None, {"type": "text"}),
    "modalities": (None, ["text"]),
}
"""Values that ask for nothing; where none are named, what is false or empty."""

decode = msgspec.json.Decoder().decode


def is_idle(name: str, raw: bytes) -> bool:
    """Return whether a field of this value asks for nothing."""
    try:
        value = decode(raw)
    except msgspec.DecodeError:
        return False
    if name in IDLE:
        return value in IDLE[name]
    # On completions `logprobs: 0` asks for something, and is no false.
    return value is None or value is False or value in ([], {}, "")


def lacked(lacks: frozenset[str], request: InferenceRequest) -> str | None:
    """Return the field by which a request asks for what a provider with these has not, None where it has all."""
    known, raws = TABLES[request.endpoint].fields, request.members.raws
    asked = (name for name in sorted(lacks - HINTS) if name in raws and name in known)
    return next((name for name in asked if not is_idle(name, bytes(raws[name]))), None)
