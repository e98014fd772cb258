"""What stands in chat messages that the Messages API has no words for, and where nothing is said that could be left out.

Messages are looked into only for deployments of that API. Pure.
"""

import re
from collections.abc import Container, Iterator

import msgspec

NOTHING = msgspec.Raw(b"null")

SYSTEM_ROLES = ("system", "developer")
"""What they say stands before the conversation, wherever it was written."""


class Message(msgspec.Struct, gc=False):
    """A chat message, as far as it is looked into."""

    role: str
    content: msgspec.Raw = NOTHING
    refusal: msgspec.Raw = NOTHING
    tool_calls: msgspec.Raw = NOTHING
    function_call: msgspec.Raw = NOTHING
    audio: msgspec.Raw = NOTHING


class Part(msgspec.Struct, gc=False):
    """A part of a message, or a call of a tool."""

    type: str
    text: str | None = None
    refusal: str | None = None
    file: msgspec.Raw = NOTHING


class File(msgspec.Struct, gc=False):
    """A file, there or kept by a provider."""

    file_id: msgspec.Raw = NOTHING
    file_data: msgspec.Raw = NOTHING


class Tool(msgspec.Struct, gc=False):
    """A tool, as far as it may be of a kind that only OpenAI has."""

    type: str = ""
    custom: msgspec.Raw = NOTHING


class Choice(msgspec.Struct, gc=False):
    """A choice among tools, in the words of any endpoint."""

    type: str = ""
    mode: str = ""
    allowed_tools: "Choice | None" = None


class Speaker(msgspec.Struct, gc=False):
    """A message, as far as it is somebody's."""

    role: str


decode_messages = msgspec.json.Decoder(list[Message]).decode
decode_parts = msgspec.json.Decoder(list[Part]).decode
decode_file = msgspec.json.Decoder(File).decode
decode_tools = msgspec.json.Decoder(list[Tool]).decode
decode_choice = msgspec.json.Decoder(Choice).decode
decode_speakers = msgspec.json.Decoder(list[Speaker]).decode
decode_texts = msgspec.json.Decoder(str | list[str]).decode
decode_text = msgspec.json.Decoder(str).decode

OF_OPENAI = re.compile(
    rb'"(?:input_audio|file_id|custom|function_call|audio)"|"role"[ \t\n\r]*:[ \t\n\r]*"function"',
)
"""Without one of these words there is nothing in messages that only OpenAI has."""


def is_blank(text: object) -> bool:
    """Return whether a text says nothing."""
    return not text or (isinstance(text, str) and text.isspace())


def beyond_messages(raw: bytes) -> str | None:
    """Return the path of the first thing in chat messages that Messages has no words for, None where there is none.

    Who says nothing is left out there; that has no words where it changes whose turn it is. None for what only looked like JSON.
    """
    try:
        messages = decode_messages(raw)
        if OF_OPENAI.search(raw) is None:
            return _unsaid(messages)
        strange = (f"messages.{place}.{within}" for place, each in enumerate(messages) for within in _strange(each))
        return next(strange, None) or _unsaid(messages)
    except (msgspec.DecodeError, RecursionError):
        return None


def has_blank(prompt: bytes) -> bool:
    """Return whether one of the texts of a prompt says nothing. False for token ids."""
    try:
        found = decode_texts(prompt)
    except msgspec.DecodeError:
        return False
    return any(map(is_blank, [found] if isinstance(found, str) else found))


def has_custom_tool(tools: bytes) -> bool:
    """Return whether one of these is called with text instead of JSON: OpenAI's kind, and not the one that Messages calls so."""
    try:
        return b'"custom"' in tools and any(
            each.type == "custom" and bytes(each.custom) != b"null" for each in decode_tools(tools)
        )
    except msgspec.DecodeError:
        return False


def is_openais_choice(choice: bytes) -> bool:
    """Return whether a choice names several tools, or one of those that are called with text."""
    try:
        return choice.startswith(b"{") and decode_choice(choice).type in ("allowed_tools", "custom")
    except msgspec.DecodeError:
        return False


def forces_tool(choice: bytes) -> bool:
    """Return whether by this choice a tool has to be called."""
    if not choice.startswith(b"{"):
        return choice == b'"required"'
    try:
        found = decode_choice(choice)
    except msgspec.DecodeError:
        return False
    several = found.allowed_tools or found
    return found.type in ("function", "tool", "any", "custom") or several.mode == "required"


def begun(raw: bytes, aside: Container[str]) -> int | None:
    """Return the place of an assistant's message that has the last word, roles `aside` left out; None where none has."""
    try:
        speakers = decode_speakers(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    last = next((place for place in reversed(range(len(speakers))) if speakers[place].role not in aside), None)
    if last is None or speakers[last].role != "assistant":
        return None
    return last if _speaks(decode_messages(raw)[last]) else None


def _strange(message: Message) -> Iterator[str]:
    """Yield where a message holds what only OpenAI has."""
    if message.role == "function":
        yield "role"
    for name in ("function_call", "audio"):
        if bytes(getattr(message, name)) != b"null":
            yield name
    for name in ("content", "tool_calls"):
        held = bytes(getattr(message, name))
        if held.startswith(b"["):
            yield from (f"{name}.{place}" for place, part in enumerate(_parts(held)) if _is_strange(part))


def _is_strange(part: Part) -> bool:
    if part.type in ("input_audio", "custom"):
        return True
    file = decode_file(part.file) if part.type == "file" else File()
    return bytes(file.file_data) == b"null" != bytes(file.file_id)


def _unsaid(messages: list[Message]) -> str | None:
    """Return the message that says nothing and that cannot be left out: its user would have no turn where one is wanted."""
    own = [place for place, each in enumerate(messages) if each.role not in SYSTEM_ROLES]
    if not own:
        # What only the system says is said by the user.
        return None if any(map(_speaks, messages)) else f"messages.{len(messages) - 1}.content"
    first, last = messages[own[0]], messages[own[-1]]
    if last.role == "user" and not _speaks(last):
        return f"messages.{own[-1]}.content"
    if first.role == "user" and (first is last or _speaks(first)):
        return None
    speaking = next((place for place in own if _speaks(messages[place])), None)
    if speaking is None:
        return f"messages.{own[-1]}.content"
    return f"messages.{own[0]}.content" if first.role == "user" and messages[speaking].role == "assistant" else None


def _speaks(message: Message) -> bool:
    """Return whether anything of a message is left once texts without a word are left out."""
    if message.role == "tool" or any(
        bytes(each) not in (b"null", b"[]", b'""') for each in (message.tool_calls, message.refusal)
    ):
        return True
    held = bytes(message.content)
    if held.startswith(b'"'):
        # Most texts begin with a letter: there is no need to look at the rest.
        return held[1:2].isalnum() or not is_blank(decode_text(held))
    if held.startswith(b"["):
        return any(part.type not in ("text", "refusal") or not is_blank(part.text or part.refusal) for part in _parts(held))
    return held != b"null"


def _parts(held: bytes) -> list[Part]:
    """Return parts or calls; one of no kind for what is no list of such, which is the provider's to judge."""
    try:
        return decode_parts(held)
    except msgspec.ValidationError:
        return [Part("")]
