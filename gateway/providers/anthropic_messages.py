"""OpenAI's conversation in Anthropic's words: `messages` become `system` and `messages` (Messages API of 2023-06-01).

Results of tools are told by the user there, and turns of one speaker in a row are one turn. What has no counterpart is left as it
is, so that the provider refuses it in its own words. Texts without a word are left out, since Messages refuses them. Pure.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from gateway.providers.anthropic_files import file_block, source
from gateway.wire.talk import SYSTEM_ROLES, is_blank

Block = dict[str, object]

SOUND_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a tool call may be called; other providers, whose calls may stand in a conversation, go further."""

MARK = "cache_control"
"""Anthropic's mark on what is to be cached, which clients put into OpenAI's parts too."""

decode = msgspec.json.Decoder().decode


class Turn(msgspec.Struct):
    """What one speaker says in one go; anything but blocks is what the client wrote in their place."""

    role: object
    content: list[object]


class Conversation(msgspec.Struct, frozen=True):
    """Who said what. `system` stands before all of it, wherever it was written."""

    system: list[object]
    messages: list[Turn]

    @property
    def goes_on(self) -> bool:
        """Return whether the answer is the middle of a turn: behind the results of tools, or where its beginning is given."""
        last = self.messages[-1] if self.messages else Turn("user", [])
        return last.role == "assistant" or any(map(_is_result, last.content))


def conversation(raw: bytes) -> Conversation:
    """Return the conversation that `messages` holds. Raises `msgspec.DecodeError` for what only looked like JSON."""
    system: list[object] = []
    turns: list[Turn] = []
    for message in decode(raw):
        role = message["role"]
        if role in SYSTEM_ROLES:
            system += _blocks(message.get("content"))
            continue
        turn = _turn(message)
        if turns and turns[-1].role == turn.role:
            turns[-1].content += turn.content
        elif turn.content:
            turns.append(turn)
    for turn in turns:
        # Messages wants the results of tools in front of all else that the user says; otherwise the order stays.
        turn.content.sort(key=_is_result, reverse=True)
    if system and not turns:
        # Messages takes no conversation without a turn; OpenAI's models answer what only the system says.
        system, turns = [], [Turn("user", system)]
    if turns and turns[-1].role == "assistant":
        _trim(turns[-1].content)
    return Conversation(system, turns)


def _is_result(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _trim(begun: list[object]) -> None:
    """Take the white space off the end of an answer that is begun: Messages refuses to go on from there."""
    last = begun[-1]
    if isinstance(last, dict) and last.get("type") == "text" and isinstance(last.get("text"), str):
        begun[-1] = {**last, "text": last["text"].rstrip()}


def _turn(message: Block) -> Turn:
    content = [*_blocks(message.get("content"))]
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": sound_id(message.get("tool_call_id"))}
        return Turn("user", [result | ({"content": content} if content else {})])
    if message["role"] == "assistant":
        calls = message.get("tool_calls")
        content += [_text(refusal) for refusal in [message.get("refusal")] if not is_blank(refusal)]
        content += map(_call, calls if isinstance(calls, list) else [])
    return Turn(message["role"], content)


def _blocks(content: object) -> Iterator[object]:
    """Yield a message's content as blocks. Texts without a word are none."""
    if isinstance(content, list):
        for part in content:
            block = _block(part) if isinstance(part, dict) else part
            if not (isinstance(block, dict) and block.get("type") == "text" and is_blank(block.get("text"))):
                yield block
    elif not is_blank(content):
        yield _text(content)


def _block(part: Block) -> Block:
    found: Block = part
    match part.get("type"):
        case "text":
            found = _text(part.get("text"))
        case "refusal":
            found = _text(part.get("refusal"))
        case "image_url":
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            found = {"type": "image", "source": source(url)}
        case "file" if isinstance(file := part.get("file"), dict) and "file_data" in file:
            found = file_block(file)
    return found | {MARK: part[MARK]} if MARK in part else found


def _text(text: object) -> Block:
    return {"type": "text", "text": text}


def _call(call: object) -> object:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call
    return {
        "type": "tool_use",
        "id": sound_id(call.get("id")),
        "name": function.get("name"),
        "input": _input(function.get("arguments")),
    }


def _input(arguments: object) -> object:
    """Return a call's arguments as the object that they are the text of; models do write what is none."""
    try:
        found = decode(arguments) if isinstance(arguments, str) and arguments else arguments
    except msgspec.DecodeError:
        found = arguments
    return found if isinstance(found, dict) else {"arguments": found} if found else {}


def sound_id(call_id: object) -> object:
    """Return what a call and its result are called: the same for both, and no other call's."""
    if not isinstance(call_id, str) or SOUND_ID.fullmatch(call_id):
        return call_id
    return f"call_{blake2b(call_id.encode(), digest_size=16).hexdigest()}"
