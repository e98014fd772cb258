"""A chat answer as a message of Anthropic's: what both of its forms have in common, and the whole of one. Pure."""

from collections.abc import Container

import msgspec

from gateway.policy.tiers import Echo
from gateway.providers.call_ids import handed
from gateway.providers.chunks import Choice, Said, ToolCall
from gateway.providers.editing import encode
from gateway.providers.messages_words import message_id, stop_reason, usage_object
from gateway.providers.over_chat_text import said_text
from gateway.providers.protocol import Answer, Edits

decode_any = msgspec.json.Decoder().decode


class ChatChoice(Choice, gc=False):
    """A choice with the sequence that ended it, which some providers tell."""

    stop_reason: object = None


class ChatAnswer(msgspec.Struct, gc=False):
    """A chat answer that the dialect has found to be one, or a chunk of it."""

    choices: list[ChatChoice] | None = None
    service_tier: object = None


decode = msgspec.json.Decoder(ChatAnswer).decode


def whole(answer: Answer, edits: Edits, stops: Container[object], owner: str) -> Answer:
    """Return a complete answer in Anthropic's words; `owner` is who gave it."""
    choices = decode(answer.body).choices
    choice = choices[0] if choices else ChatChoice()
    said, text, echo = choice.message or Said(), said_text(choice), edits.tariff.echo(answer.tier)
    thought = thought_of(choice)
    content: list[dict[str, object]] = []
    if thought:
        content.append({"type": "thinking", "thinking": thought, "signature": ""})
    if text:
        content.append({"type": "text", "text": text})
    for place, call in enumerate(said.tool_calls or ()):
        call_id = handed(call.id or f"toolu_{edits.id}_{place}", call.extra_content, owner)
        content.append({"type": "tool_use", "id": call_id, **_called(call)})
    reason, sequence = end_of(choice, stops, "tool_use" if said.tool_calls else "refusal" if said.refusal else None)
    message = {
        **head(edits),
        "content": content,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": usage_object(answer.usage, edits, echo),
    }
    return Answer(body=encode(message), usage=answer.usage, tier=answer.tier, output_bytes=answer.output_bytes)


def beginning(edits: Edits, echo: Echo | None) -> dict[str, object]:
    """Return a message at its beginning, before anything is known of its usage."""
    nothing: dict[str, object] = {"content": [], "stop_reason": None, "stop_sequence": None}
    return {**head(edits), **nothing, "usage": usage_object(None, edits, echo)}


def head(edits: Edits) -> dict[str, object]:
    """Return the members that every message begins with."""
    return {"id": message_id(edits), "type": "message", "role": "assistant", "model": edits.model}


def end_of(choice: ChatChoice, stops: Container[object], said: str | None) -> tuple[str, object]:
    """Return why a choice ended, by what it `said` where it has no word for that, and the sequence that ended it, where told."""
    if choice.finish_reason == "stop" and isinstance(choice.stop_reason, str) and choice.stop_reason in stops:
        return "stop_sequence", choice.stop_reason
    # Some providers call every proper end the same.
    return (said if said and choice.finish_reason in (None, "stop") else stop_reason(choice.finish_reason)), None


def thought_of(choice: Choice) -> str:
    """Return what a choice thinks aloud."""
    said = choice.delta or choice.message
    thought = None if said is None else said.reasoning_content or said.reasoning
    return thought if isinstance(thought, str) else ""


def _called(call: ToolCall) -> dict[str, object]:
    function = call.function
    given = None if function is None else function.arguments
    name = None if function is None else function.name
    return {"name": name or "", "input": _input(given)}


def _input(arguments: object) -> object:
    """Return a call's arguments as the object that they are the text of; models do write what is none."""
    try:
        found = decode_any(arguments) if isinstance(arguments, str) and arguments.strip() else arguments or {}
    except msgspec.DecodeError:
        found = arguments
    return found if isinstance(found, dict) else {"arguments": found}
