"""How a request steers an answer that current models no longer let be steered: how tokens are picked, whether a tool has to be
called, whether the model thinks, and what the answer begins with.

What asks for nothing that is not so anyway passes, and is left out where even the field is refused. Pure.
"""

from collections.abc import Iterator, Mapping

import msgspec

from gateway.policy.means import Capabilities
from gateway.wire.request import Endpoint, InferenceRequest
from gateway.wire.talk import SYSTEM_ROLES, begun, forces_tool

USUAL: Mapping[str, tuple[object, ...]] = {"temperature": (None, 1), "top_p": (None, 1), "top_k": (None, 0, -1)}
"""How tokens are picked where nobody asks for anything else."""

decode = msgspec.json.Decoder().decode

TOGETHER = ("temperature", "top_p")


def is_free(can: Capabilities) -> bool:
    """Return whether an answer may be steered in every way."""
    return can.sampling and can.temperature_with_top_p and can.forced_tools and can.thinking_off and can.prefill


def unsteered(can: Capabilities, request: InferenceRequest) -> Iterator[tuple[str, str]]:
    """Yield the capabilities that a request needs and that are not there, with the field that needs each."""
    if not can.sampling:
        yield from (("sampling", name) for name in USUAL if is_unusual(request, name))
    if not can.temperature_with_top_p and all(is_unusual(request, name) for name in TOGETHER):
        yield "temperature_with_top_p", TOGETHER[1]
    if not can.forced_tools and request.fields.get("tools") and forces_tool(request.members.value("tool_choice") or b""):
        yield "forced_tools", "tool_choice"
    if not can.thinking_off and request.fields.get("reasoning_effort") == "none":
        yield "thinking_off", "reasoning_effort"
    if not can.prefill and (place := _begun(request)) is not None:
        yield "prefill", f"messages.{place}.role"


def left_out(can: Capabilities, request: InferenceRequest) -> Iterator[str]:
    """Yield the fields that ask for nothing and that would be refused all the same."""
    given = [name for name in USUAL if name in request.members.raws]
    if not can.sampling or (not can.temperature_with_top_p and {*TOGETHER} <= {*given}):
        yield from (name for name in given if not is_unusual(request, name))


def is_unusual(request: InferenceRequest, name: str) -> bool:
    """Return whether a field of `USUAL` asks for something."""
    raw = request.members.value(name)
    try:
        return raw is not None and decode(raw) not in USUAL[name]
    except msgspec.DecodeError:
        # A number beyond all bounds.
        return True


def _begun(request: InferenceRequest) -> int | None:
    """Return the place of the message with which the answer is to begin, None where there is none."""
    if request.endpoint not in (Endpoint.CHAT, Endpoint.MESSAGES):
        return None
    # A chat's system stands in front, wherever it was written; within Messages it has its turn.
    aside = SYSTEM_ROLES if request.endpoint is Endpoint.CHAT else ()
    return begun(request.members.value("messages") or b"", aside)
