"""A Messages conversation in chat's words: `system` and `messages` become `messages`.

What tools gave back are messages of their own there, before all else of their turn; images that they gave back can only be shown
by the user. What a model thought is said again to providers that want it back, and to no other. Marks on what is to be cached are
Anthropic's alone. Pure.
"""

from collections.abc import Iterator

import msgspec

from gateway.providers.call_ids import returned

Part = dict[str, object]

DOCUMENT = "document.pdf"
"""What a file is called that has no name: chat wants one."""

FAILED = "Error"
"""What the result of a tool begins with that failed."""

PASSING = "next_user_message"
"""What the system says until the user speaks again."""

decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class Listener(msgspec.Struct, frozen=True):
    """Who is told: the member in which it wants back what was thought, if any, and whose calls it knows again."""

    thoughts: str | None
    owner: str


def chat_messages(system: bytes | None, turns: bytes, listener: Listener) -> list[Part]:
    """Return chat's messages. Raises `msgspec.DecodeError` for what only looked like JSON."""
    found = [*_system(_blocks(decode(system or b"null")))]
    said = decode(turns)
    last_asked = max((place for place, turn in enumerate(said) if turn["role"] == "user"), default=0)
    for place, turn in enumerate(said):
        blocks = _blocks(turn.get("content"))
        match turn["role"]:
            case "assistant":
                found += _assistant(blocks, listener)
            case "system":
                is_over = turn.get("clear_at") == PASSING and place < last_asked
                found += () if is_over else _system(blocks)
            case _:
                found += _user(blocks, listener)
    return found


def _blocks(content: str | list[Part] | None) -> list[Part]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _system(blocks: list[Part]) -> Iterator[Part]:
    if said := _texts(blocks, "\n\n"):
        yield {"role": "system", "content": said}


def _user(blocks: list[Part], listener: Listener) -> Iterator[Part]:
    parts: list[Part] = []
    for block in blocks:
        if block["type"] == "tool_result":
            given = block.get("content")
            call_id = returned(block.get("tool_use_id"), listener.owner).id
            yield {"role": "tool", "tool_call_id": call_id, "content": _result(block)}
            parts += _parts(given) if isinstance(given, list) else []
    said = [part for block in blocks for part in _parts([block], texts=True)]
    parts += said
    if len(parts) == 1 and parts[0]["type"] == "text":
        yield {"role": "user", "content": parts[0]["text"]}
    elif parts:
        yield {"role": "user", "content": parts}


def _result(block: Part) -> str:
    """Return what a tool gave back. That it failed can only be said in words."""
    said = _texts(block.get("content"), "\n")
    if block.get("is_error") is not True or said.lower().startswith(FAILED.lower()):
        return said
    return f"{FAILED}: {said}" if said else FAILED


def _assistant(blocks: list[Part], listener: Listener) -> Iterator[Part]:
    text, thought = _texts(blocks, ""), "".join(map(_thought, blocks))
    calls = [_call(block, listener.owner) for block in blocks if block["type"] == "tool_use"]
    # Who wants thoughts back wants the member with every call, even if there is nothing in it.
    again: Part = {listener.thoughts: thought} if listener.thoughts is not None and (thought or calls) else {}
    if calls:
        yield {"role": "assistant", "content": text or None, **again, "tool_calls": calls}
    elif text:
        yield {"role": "assistant", "content": text, **again}


def _call(block: Part, owner: str) -> Part:
    known = returned(block.get("id"), owner)
    function = {"name": block.get("name"), "arguments": encode(block.get("input") or {}).decode()}
    call: Part = {"id": known.id, "type": "function", "function": function}
    return call if known.extra_content is None else call | {"extra_content": known.extra_content}


def _thought(block: Part) -> str:
    thought = block.get("thinking") if block["type"] == "thinking" else None
    return thought if isinstance(thought, str) else ""


def _parts(blocks: list[Part], *, texts: bool = False) -> Iterator[Part]:
    """Yield the files among these blocks as chat shows them, with `texts` what is said as well."""
    for block in blocks:
        source = block.get("source")
        if block["type"] == "text" and texts:
            yield {"type": "text", "text": block.get("text")}
        elif block["type"] == "image" and isinstance(source, dict):
            yield {"type": "image_url", "image_url": {"url": _url(source)}}
        elif block["type"] == "document" and isinstance(source, dict):
            if source.get("type") == "text":
                yield {"type": "text", "text": source.get("data")}
            else:
                yield {"type": "file", "file": {"filename": block.get("title") or DOCUMENT, "file_data": _url(source)}}


def _url(source: Part) -> object:
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return source.get("url")


def _texts(content: object, between: str) -> str:
    """Return what a text, or the blocks of text among these, say."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    said = (block.get("text") for block in content if block["type"] == "text")
    return between.join(text for text in said if isinstance(text, str))
