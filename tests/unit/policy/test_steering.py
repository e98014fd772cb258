from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.policy.adjustments import adjust
from gateway.policy.capabilities import Lack, lacking, refusal
from gateway.policy.catalogue import Tier
from gateway.policy.charging import Target
from gateway.policy.means import Capabilities
from gateway.policy.steering import is_free
from gateway.wire.request import Endpoint, InferenceRequest, parse
from tests.catalogues import deployment, model, provider

HI = {"role": "user", "content": "Hi"}
SO = {"role": "assistant", "content": "So"}
TOOLS = {"tools": [{"type": "function", "function": {"name": "f"}}]}
ITS_TOOLS = {"tools": [{"name": "f", "input_schema": {}}]}
NAMED = {"type": "function", "function": {"name": "f"}}
SEVERAL = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}

FREE = Capabilities()
PICKY = replace(FREE, sampling=False)
EITHER = replace(FREE, temperature_with_top_p=False)
UNFORCED = replace(FREE, forced_tools=False)
THINKS = replace(FREE, thinking_off=False)
BEGINS = replace(FREE, prefill=False)


def chat(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.CHAT, msgspec.json.encode({"model": "m", "messages": [HI], **fields}))


def messages(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.MESSAGES, msgspec.json.encode({"model": "m", "messages": [HI], "max_tokens": 5, **fields}))


def completions(**fields: Any) -> InferenceRequest:
    return parse(Endpoint.COMPLETIONS, msgspec.json.encode({"model": "m", "prompt": "x", **fields}))


REFUSED: tuple[tuple[Capabilities, InferenceRequest, str, str], ...] = (
    (PICKY, chat(temperature=0), "sampling", "temperature"),
    (PICKY, chat(top_p=0.5), "sampling", "top_p"),
    (PICKY, chat(top_k=5), "sampling", "top_k"),
    (PICKY, completions(temperature=0.5), "sampling", "temperature"),
    (PICKY, messages(top_k=5), "sampling", "top_k"),
    (EITHER, chat(temperature=0.5, top_p=0.5), "temperature_with_top_p", "top_p"),
    (UNFORCED, chat(**TOOLS, tool_choice="required"), "forced_tools", "tool_choice"),
    (UNFORCED, chat(**TOOLS, tool_choice=NAMED), "forced_tools", "tool_choice"),
    (UNFORCED, chat(**TOOLS, tool_choice=SEVERAL), "forced_tools", "tool_choice"),
    (UNFORCED, messages(**ITS_TOOLS, tool_choice={"type": "any"}), "forced_tools", "tool_choice"),
    (UNFORCED, messages(**ITS_TOOLS, tool_choice={"type": "tool", "name": "f"}), "forced_tools", "tool_choice"),
    (THINKS, chat(reasoning_effort="none"), "thinking_off", "reasoning_effort"),
    (BEGINS, chat(messages=[HI, SO]), "prefill", "messages.1.role"),
    (BEGINS, chat(messages=[HI, SO, {"role": "system", "content": "Be kind"}]), "prefill", "messages.1.role"),
    (BEGINS, messages(messages=[HI, SO]), "prefill", "messages.1.role"),
)


@pytest.mark.parametrize(("can", "request_", "capability", "field"), REFUSED)
def test_what_cannot_be_steered_is_refused_by_its_field(
    can: Capabilities, request_: InferenceRequest, capability: str, field: str
) -> None:
    assert not is_free(can)
    assert lacking(can, request_) == (capability, field)
    assert lacking(FREE, request_) is None
    assert refusal("m", can, Lack(capability, field)).param == field


@pytest.mark.parametrize(
    ("can", "request_"),
    [
        (PICKY, chat()),
        (PICKY, chat(temperature=1, top_p=1.0, top_k=0)),
        (PICKY, chat(temperature=None, top_k=-1)),
        (EITHER, chat(temperature=0.5)),
        (EITHER, chat(temperature=0.5, top_p=1)),
        (EITHER, chat(temperature=1, top_p=0.5)),
        (UNFORCED, chat(**TOOLS)),
        (UNFORCED, chat(**TOOLS, tool_choice="auto")),
        (UNFORCED, chat(**TOOLS, tool_choice="none")),
        (UNFORCED, chat(tool_choice="required")),
        (UNFORCED, messages(**ITS_TOOLS, tool_choice={"type": "auto"})),
        (THINKS, chat(reasoning_effort="low")),
        (THINKS, chat()),
        (BEGINS, chat(messages=[HI, SO, HI])),
        (BEGINS, chat(messages=[HI, {"role": "assistant", "content": " "}])),
        (BEGINS, completions()),
    ],
)
def test_what_asks_for_nothing_else_passes(can: Capabilities, request_: InferenceRequest) -> None:
    assert lacking(can, request_) is None


def adjusted(can: Capabilities, request: InferenceRequest) -> tuple[dict[str, bytes | None], tuple[str, ...], tuple[str, ...]]:
    one = model("m", deployment("m", provider("p")), capabilities=can)
    found = adjust(request, Target(one, one.deployments[0], Tier.DEFAULT), "org")
    return dict(found.request.changes), found.dropped, found.lowered


def test_a_field_that_asks_for_nothing_is_left_out_where_it_would_be_refused() -> None:
    asked = chat(temperature=1, top_p=1)
    assert adjusted(PICKY, asked) == ({"temperature": None, "top_p": None}, (), ())
    assert adjusted(EITHER, asked) == ({"temperature": None, "top_p": None}, (), ())
    assert adjusted(EITHER, chat(temperature=0.5, top_p=1)) == ({"top_p": None}, (), ())
    assert adjusted(EITHER, chat(temperature=1)) == ({}, (), ())
    assert adjusted(FREE, asked) == ({}, (), ())


def test_a_number_beyond_bounds_asks_for_something() -> None:
    request = parse(Endpoint.CHAT, b'{"model":"m","messages":[{"role":"user","content":"x"}],"top_k":1e999}')
    assert lacking(PICKY, request) == ("sampling", "top_k")
