"""Answers of the Responses API: the provider's own bytes with a few members changed. Requests are made in `openai`. Pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.errors import InvalidJson, Unprocessable
from gateway.faults import Failed
from gateway.policy.tiers import Echo
from gateway.providers.editing import common_edits, encode, shown_usage
from gateway.providers.failures import NO_ANSWER, failure_inside, failure_of
from gateway.providers.protocol import Answer, Edits
from gateway.wire.members import splice, split
from gateway.wire.usage import Usage, read_usage

ID = "resp_"
"""What OpenAI's ids of responses begin with."""

NO_ANSWERS = frozenset({"failed", "cancelled", "queued", "in_progress"})
"""Statuses of what was not answered, and now never will be."""


REQUESTS_FAULT = re.compile(r"^(?:invalid_|unsupported_|empty_|failed_to_download_)|^image_|_image(?:_|$)")
"""Codes of what is amiss in a request: of its prompt, of images in it."""


class Item(msgspec.Struct, gc=False):
    """An item of an answer, as far as it may say something. Tools of all kinds have items, with members of any type."""

    type: object = None
    content: object = None
    summary: object = None
    arguments: object = None
    input: object = None


class Response(msgspec.Struct, gc=False):
    """What is looked at in a response, whole or as its events tell it."""

    id: object = None
    status: object = None
    output: list[Item] | None = None
    usage: object = None
    service_tier: object = None
    error: object = None


decode = msgspec.json.Decoder(Response).decode


class Shown(NamedTuple):
    """A response as the client gets it, and what it tells of itself."""

    body: bytes
    usage: Usage | None
    tier: str | None


def answer(body: bytes, edits: Edits, hidden: Sequence[str]) -> Answer | Failed:
    """Read a complete 2xx body."""
    try:
        found = decode(body)
        if found.error or found.output is None or found.status in NO_ANSWERS:
            return failure_in(found.error, hidden)
        shown = show(body, found, edits)
    except (InvalidJson, Unprocessable, msgspec.DecodeError, RecursionError):
        return failure_of(body, hidden=hidden)
    produced = 0 if shown.usage is not None else output_bytes(found)
    return Answer(body=shown.body, usage=shown.usage, tier=shown.tier, output_bytes=produced)


def failure_in(error: object, hidden: Sequence[str]) -> Failed:
    """Name what the error of a response means, whose code alone tells whose fault it is."""
    if not error:
        return NO_ANSWER
    if isinstance(error, dict) and isinstance(code := error.get("code"), str) and REQUESTS_FAULT.search(code):
        error = {"type": "invalid_request_error", **error}
    return failure_inside({"error": error}, hidden=hidden)


def show(body: bytes, found: Response, edits: Edits, told: str | None = None) -> Shown:
    """Return a response as the client gets it; `told` is the word for the tier up to now."""
    members, usage = split(body), usage_of(found.usage)
    tier = found.service_tier if isinstance(found.service_tier, str) else told
    echo: Echo | None = edits.tariff.echo(tier)
    edited = common_edits(edits, echo)
    if not (isinstance(found.id, str) and found.id):
        edited["id"] = encode(ID + edits.id)
    raw = members.value("usage")
    if isinstance(found.usage, dict) and raw is not None:
        # What a provider leaves out of the output count of chat is said of chat.
        edited["usage"] = shown_usage(raw, usage, replace(edits, reasoning_outside=False), echo)
    return Shown(splice(members, edited), usage, tier)


def usage_of(stated: object) -> Usage | None:
    """Return the usage of a decoded `usage` object, whose figures have names of their own here."""
    if not isinstance(stated, dict):
        return None
    known = {
        "prompt_tokens": stated.get("input_tokens"),
        "completion_tokens": stated.get("output_tokens"),
        "total_tokens": stated.get("total_tokens"),
        "prompt_tokens_details": stated.get("input_tokens_details"),
        "completion_tokens_details": stated.get("output_tokens_details"),
    }
    return read_usage(known)


def item_bytes(item: Item) -> int:
    """Return how many bytes of text an item holds."""
    said = 0
    for member in (item.content, item.summary, item.arguments, item.input):
        said += sum(map(part_bytes, member)) if isinstance(member, list) else text_bytes(member)
    return said


def part_bytes(part: object) -> int:
    """Return how many bytes of text a part of an item holds: a text, a refusal, a summary of thoughts."""
    return text_bytes(part.get("text")) + text_bytes(part.get("refusal")) if isinstance(part, dict) else 0


def text_bytes(value: object) -> int:
    """Return how many bytes a text has, 0 for what is none."""
    return len(value.encode()) if isinstance(value, str) else 0


def output_bytes(found: Response) -> int:
    """Return how many bytes of text a response holds: what an estimate of the output goes by."""
    return sum(map(item_bytes, found.output or ()))
