"""An OpenAI chat request in Anthropic's words (Messages API of 2023-06-01).

What Messages has under another name is translated, what it has not is dropped and reported. Requests that it has no words for
never get here: `NATURE` keeps them out of the plan. Pure.
"""

import re
from collections.abc import Set

import msgspec

from gateway.policy.catalogue import Deployment, Tier
from gateway.policy.natures import Nature
from gateway.policy.steering import USUAL
from gateway.providers.anthropic_generation import Leave, generation
from gateway.providers.anthropic_messages import Block, conversation
from gateway.providers.anthropic_models import MODELS
from gateway.providers.anthropic_schema import closed
from gateway.providers.anthropic_tools import is_forced, tools
from gateway.providers.anthropic_user import user_id
from gateway.wire.request import Endpoint, InferenceRequest

NATURE = Nature(
    endpoints=frozenset({Endpoint.CHAT, Endpoint.MESSAGES}),
    lacks=frozenset(
        {"choices", "logprobs", "logit_bias", "penalties", "repetition_penalty", "token_rules", "functions"}
        | {"json_object", "regex", "sound", "web_search", "blank_stop", "begun_schema", "custom_tools", "allowed_tools", "turns"}
    ),
    bounded=True,
    idle_quirks=(
        *("fail_fast", "stream_options", "max_tokens_field", "continuous_usage", "reasoning_outside"),
        "finish_chunk_usage",
    ),
    idle_capabilities=("priority_field",),
    models=MODELS,
    passes_fields=False,
)

USUAL_MAX_TOKENS = 8_192
"""The bound of an answer that nobody bounds: what the gateway takes the longest answer for elsewhere too."""

TAKEN = frozenset(
    {"model", "models", "messages", "stream", "stream_options", "fail_fast", "service_tier", "max_tokens"}
    | {"max_completion_tokens", "stop", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "response_format"}
    | {"n", "logprobs", "top_logprobs", "logit_bias", "presence_penalty", "frequency_penalty", "functions", "modalities"}
    | USUAL.keys()
)
"""What is translated, obeyed by the gateway itself, or there at a value that asks for nothing."""

SAFE_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)

decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class Translated(msgspec.Struct, frozen=True):
    """A request's body, and what became of fields that could not be kept: names, and entries `name=value`."""

    body: bytes
    dropped: tuple[str, ...]
    lowered: tuple[str, ...]


def translate(request: InferenceRequest, deployment: Deployment, tier: Tier) -> Translated:
    """Return the body of a call. Raises `msgspec.DecodeError` and `RecursionError` for what only looked like JSON."""
    said, offered = conversation(request.leaving("messages") or b"[]"), tools(request)
    bound = request.max_tokens or USUAL_MAX_TOKENS
    leave = Leave(bound=bound, forced=is_forced(offered), goes_on=said.goes_on)
    is_adaptive = deployment.provider.quirks.adaptive_thinking
    made = generation(request, leave, "adaptive" if is_adaptive else deployment.thinking)
    schema, user = _schema(request), user_id(request)
    members: Block = {
        "model": deployment.upstream_model,
        "max_tokens": bound,
        "system": said.system,
        "messages": said.messages,
        **offered,
        **made.members,
        "output_config": made.config if schema is None else {**made.config, "format": {"type": "json_schema", "schema": schema}},
        "stop_sequences": request.fields.get("stop"),
        "service_tier": deployment.provider.tiers.get(tier),
        "metadata": {"user_id": user} if user else None,
        "stream": request.stream,
    }
    # What is empty is left out, but 0 is a temperature.
    body = {name: value for name, value in members.items() if value or name in made.members or name == "messages"}
    is_free = _form(request).get("type") == "json_schema" and schema is None
    left = made.left | ({"response_format"} if is_free else set())
    return Translated(encode(body), _dropped(request, left, {"user"} if user else set()), made.lowered)


def _form(request: InferenceRequest) -> Block:
    asked = decode(request.leaving("response_format") or b"null")
    return asked if isinstance(asked, dict) else {}


def _schema(request: InferenceRequest) -> object:
    """Return the schema that the answer is to keep to, None where there is none."""
    named = _form(request).get("json_schema")
    return closed(named.get("schema")) if isinstance(named, dict) else None


def _dropped(request: InferenceRequest, left: Set[str], told: Set[str]) -> tuple[str, ...]:
    """Return the fields that do not travel, in the client's order. What the model could not take was reported before."""
    raws = request.members.raws
    unknown = {name for name, raw in raws.items() if name not in TAKEN and bytes(raw) != b"null" and SAFE_NAME.fullmatch(name)}
    gone = left | {name for name in unknown - told if request.changes.get(name, b"") is not None}
    return tuple(name for name in raws if name in gone)
