"""OpenAI's `tools`, `tool_choice` and `parallel_tool_calls` in Anthropic's words.

What is no function, such as a tool of the provider's own, is left as it is. Pure.
"""

from collections.abc import Mapping

import msgspec

from gateway.providers.anthropic_messages import MARK, Block
from gateway.providers.anthropic_schema import closed
from gateway.wire.request import InferenceRequest

CHOICES: Mapping[str, str] = {"auto": "auto", "none": "none", "required": "any"}

FORCED = ("any", "tool")
"""Choices by which a tool has to be called."""

decode = msgspec.json.Decoder().decode


def tools(request: InferenceRequest) -> Block:
    """Return `tools` and `tool_choice` as far as a request has any. Raises `msgspec.DecodeError`."""
    offered = [*map(_tool, decode(request.leaving("tools") or b"[]"))] if request.fields.get("tools") else []
    if not offered:
        # Where there is nothing to choose from, Messages takes no choice.
        return {}
    choice = _choice(decode(request.leaving("tool_choice") or b"null"))
    if request.fields.get("parallel_tool_calls") is False and choice.get("type") != "none":
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": True}
    return {"tools": offered, "tool_choice": choice} if choice else {"tools": offered}


def is_forced(offered: Block) -> bool:
    """Return whether a tool has to be called."""
    choice = offered.get("tool_choice")
    return isinstance(choice, dict) and choice.get("type") in FORCED


def _tool(tool: Block) -> Block:
    function = tool.get("function")
    if tool.get("type", "function") != "function" or not isinstance(function, dict):
        return tool
    schema = function.get("parameters") or {}
    found: Block = {"name": function.get("name")}
    if function.get("description"):
        found["description"] = function["description"]
    found["input_schema"] = {"type": "object", **schema} if isinstance(schema, dict) else schema
    if function.get("strict") is True:
        found |= {"input_schema": closed(found["input_schema"]), "strict": True}
    return found | {MARK: tool[MARK]} if MARK in tool else found


def _choice(chosen: object) -> Block:
    if isinstance(chosen, str):
        return {"type": CHOICES.get(chosen, chosen)}
    if not isinstance(chosen, dict):
        return {}
    function = chosen.get("function")
    return {"type": "tool", "name": function.get("name")} if isinstance(function, dict) else chosen
