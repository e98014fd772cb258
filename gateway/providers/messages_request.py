"""A Messages request in chat's words. What chat has under another name is translated, what it has not is dropped and reported.

Conversations that chat has no words for never get here: `gateway.policy.capabilities` keeps them away. Words of another day in
fields that have to be looked into are refused by name. Pure.
"""

import re
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from gateway.providers.messages_turns import Listener, chat_messages
from gateway.providers.strictness import is_strict
from gateway.wire.request import InferenceRequest

OBEYED = frozenset({"models", "fail_fast", "service_tier"})
"""What the gateway itself does: never sent in the client's words."""

SAFE_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)

CHOICES: Mapping[object, object] = {"auto": "auto", "any": "required", "none": "none"}

ALIKE = ("temperature", "top_p", "top_k")
"""What is called the same, if chat of a provider knows it at all."""

EFFORTS: tuple[tuple[float, str], ...] = ((0.35, "low"), (0.65, "medium"), (1.0, "high"))
"""Up to which share of an answer's bound a budget of thinking is which effort."""

MOST_USER_CHARS = 64
"""What OpenAI takes for `user`; coding agents put an account and a session into theirs."""

TAKEN = OBEYED | frozenset({"model", "max_tokens", "messages", "system", "stream", "stop_sequences", "metadata", *ALIKE})
TRANSLATED = TAKEN | {"tools", "tool_choice", "output_config"}
"""What has a counterpart; thinking has one where it says how much of it is wanted."""

decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class Chat(msgspec.Struct, frozen=True):
    """The body of a chat request, and the fields that it has no words for."""

    body: bytes
    dropped: tuple[str, ...]


def chat_body(request: InferenceRequest, listener: Listener) -> Chat:
    """Return a request as chat.

    Chat has words for it, by its plan. Raises `msgspec.DecodeError` and `RecursionError` for what only looked like JSON.
    """
    fields = request.fields
    effort = _effort(request)
    members: dict[str, object] = {
        "model": "",
        "messages": chat_messages(request.leaving("system"), request.leaving("messages") or b"[]", listener),
        "stop": fields.get("stop_sequences") or None,
        **{name: msgspec.Raw(raw) for name in ALIKE if (raw := request.leaving(name)) is not None and raw != b"null"},
        **_tools(request),
        "reasoning_effort": effort,
        "response_format": _format(request),
        "user": _user(fields.get("metadata")),
        "stream": request.stream or None,
    }
    body = encode({name: value for name, value in members.items() if value is not None})
    told = TRANSLATED | ({"thinking"} if effort is not None or _is_unthinking(fields) else set())
    raws = request.members.raws
    gone = [name for name, raw in raws.items() if name not in told and bytes(raw) != b"null" and SAFE_NAME.fullmatch(name)]
    return Chat(body, tuple(gone))


def _tools(request: InferenceRequest) -> dict[str, object]:
    """Return `tools` and what goes with them; where there is nothing to choose from, chat takes no choice."""
    if not request.fields.get("tools"):
        return {}
    found: dict[str, object] = {"tools": [*map(_tool, decode(request.leaving("tools") or b"[]"))]}
    choice = request.fields.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "tool":
        found["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif isinstance(choice, dict) and "type" in choice:
        found["tool_choice"] = CHOICES[choice["type"]]
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use") and choice.get("type") != "none":
        found["parallel_tool_calls"] = False
    return found


def _tool(tool: Mapping[str, object]) -> dict[str, object]:
    function = {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "parameters": tool.get("input_schema"),
        "strict": tool.get("strict") if is_strict(tool.get("input_schema")) else None,
    }
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def _effort(request: InferenceRequest) -> object:
    """Return how much the model is to think, where the request says so; None leaves it to the model."""
    if _is_unthinking(request.fields):
        return None
    config, thinking = request.fields.get("output_config"), request.fields.get("thinking")
    if isinstance(config, dict) and config.get("effort"):
        return config["effort"]
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) and thinking.get("type") == "enabled" else None
    if not isinstance(budget, int):
        return None
    share = budget / (request.max_tokens or budget)
    return next((effort for most, effort in EFFORTS if share <= most), EFFORTS[-1][1])


def _is_unthinking(fields: Mapping[str, object]) -> bool:
    thinking = fields.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "disabled"


def _format(request: InferenceRequest) -> object:
    """Return the schema that the answer is to keep to."""
    config = decode(request.leaving("output_config") or b"null")
    wanted = config.get("format") if isinstance(config, dict) else None
    if not isinstance(wanted, dict):
        return None
    schema = wanted.get("schema")
    held = {"strict": True} if is_strict(schema) else {}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **held}}


def _user(metadata: object) -> object:
    """Return whom it is for: a name that is too long by its SHA-256, which tells users apart just as well."""
    name = metadata.get("user_id") if isinstance(metadata, dict) else None
    return sha256(name.encode()).hexdigest() if isinstance(name, str) and len(name) > MOST_USER_CHARS else name
