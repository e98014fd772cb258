"""An OpenAI chat request in Anthropic's words (Messages API of 2023-06-01).

What Messages has under another name is translated, what it has not is dropped and reported. Requests that it has no words for
never get here: `NATURE` keeps them out of the plan. Pure.
"""

import re
from collections.abc import Mapping

import msgspec

from gateway.policy.catalogue import Deployment, Tier
from gateway.policy.natures import Nature
from gateway.providers.anthropic_messages import Block, conversation
from gateway.providers.anthropic_tools import FORCED, tools
from gateway.wire.request import Endpoint, InferenceRequest

NATURE = Nature(
    endpoints=frozenset({Endpoint.CHAT}),
    lacks=frozenset(
        {"choices", "logprobs", "logit_bias", "penalties", "repetition_penalty", "token_rules", "functions"}
        | {"json_object", "regex", "sound", "web_search", "blank_stop"}
    ),
    bounded=True,
)

USUAL_MAX_TOKENS = 8_192
"""The bound of an answer that nobody bounds: what the gateway takes the longest answer for elsewhere too."""

FEWEST_THINKING_TOKENS = 1_024
"""Messages takes no smaller budget, and wants it to be less than `max_tokens`."""

SHARES: Mapping[object, float] = {"minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.95, "max": 0.95}
"""The share of an answer's bound that may go into thinking, by `reasoning_effort`."""

EFFORTS: Mapping[object, object] = {"minimal": "low"}
"""What a model that chooses its own budget calls an effort, where the word is another."""

USUAL: Mapping[str, tuple[object, ...]] = {"temperature": (None, 1), "top_p": (None, 1), "top_k": (None, 0, -1)}
"""How tokens are picked where nobody asks for anything else."""

TAKEN = frozenset(
    {
        "model",
        "models",
        "messages",
        "fail_fast",
        "service_tier",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
    }
    | {"stop", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "response_format"}
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
    said = conversation(request.members.value("messages") or b"[]")
    body: Block = {"model": deployment.upstream_model, "max_tokens": request.max_tokens or USUAL_MAX_TOKENS}
    if said.system:
        body["system"] = said.system
    body |= {"messages": said.messages, **tools(request)}
    thinking, sampling = _thinking(request, body, deployment, awaits_tools=said.awaits_tools), _sampling(request)
    lowered: tuple[str, ...] = ()
    if thinking:
        # A model that thinks takes no word on how its tokens are picked.
        left = frozenset(sampling)
    else:
        left = frozenset({"reasoning_effort"} if _effort(request) else ())
        warm = sampling.get("temperature")
        if isinstance(warm, int | float) and warm > 1:
            del sampling["temperature"]  # 1 is what it is without
            lowered = ("temperature=1",)
        body |= sampling
    config = {**thinking.pop("output_config", {}), **_format(request)}
    body |= thinking | ({"output_config": config} if config else {}) | _rest(request, deployment, tier)
    return Translated(encode(body), _dropped(request, left), lowered)


def _rest(request: InferenceRequest, deployment: Deployment, tier: Tier) -> Block:
    tiers = deployment.provider.tiers
    found: Block = {"stop_sequences": request.fields["stop"]} if request.fields.get("stop") else {}
    found |= {"service_tier": tiers[tier]} if tier in tiers else {}
    return found | ({"stream": True} if request.stream else {})


def _effort(request: InferenceRequest) -> object:
    """Return how much thought is asked for, None for none."""
    effort = request.fields.get("reasoning_effort")
    return None if effort == "none" else effort


def _thinking(request: InferenceRequest, body: Block, deployment: Deployment, *, awaits_tools: bool) -> dict[str, Block]:
    """Return what makes the model think as much as is asked for; nothing where Messages would refuse that.

    It would where a tool has to be called, where a bound leaves no room, and, for a budget of ours, in the middle of a turn that
    began without: what was thought then is nothing that clients of OpenAI's have.
    """
    effort, bound = _effort(request), body["max_tokens"]
    choice = body.get("tool_choice")
    if effort is None or (isinstance(choice, dict) and choice.get("type") in FORCED):
        return {}
    if deployment.provider.quirks.adaptive_thinking:
        thinking: Block = {"type": "adaptive", "display": "summarized"}
        return {"thinking": thinking, "output_config": {"effort": EFFORTS.get(effort, effort)}}
    if awaits_tools or not isinstance(bound, int) or bound <= FEWEST_THINKING_TOKENS:
        return {}
    budget = max(FEWEST_THINKING_TOKENS, int(bound * SHARES[effort]))
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _sampling(request: InferenceRequest) -> Block:
    """Return what is asked for of how tokens are picked, beyond the usual."""
    asked = {name: decode(request.members.value(name) or b"null") for name in USUAL}
    return {name: value for name, value in asked.items() if value not in USUAL[name]}


def _format(request: InferenceRequest) -> Block:
    """Return the schema that the answer is to keep to."""
    asked = decode(request.members.value("response_format") or b"null")
    named = asked.get("json_schema") if isinstance(asked, dict) else None
    schema = named.get("schema") if isinstance(named, dict) else None
    return {} if schema is None else {"format": {"type": "json_schema", "schema": schema}}


def _dropped(request: InferenceRequest, left: frozenset[str]) -> tuple[str, ...]:
    """Return the fields that do not travel, in the client's order. What the model could not take was reported before."""
    return tuple(
        name
        for name, raw in request.members.raws.items()
        if name in left
        or (
            name not in TAKEN
            and bytes(raw) != b"null"
            and request.changes.get(name, b"") is not None
            and SAFE_NAME.fullmatch(name)
        )
    )
