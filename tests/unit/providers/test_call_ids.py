"""Ids of tool calls: sound in a client's hands, and to their own provider what they were."""

import re
from base64 import urlsafe_b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.policy.catalogue import Secret
from gateway.providers.call_ids import MOST_CARRIED_BYTES, Carried, handed, owner_of, returned
from tests.unit.providers.asking import CHAT, message, sent
from tests.unit.providers.chatting import chat, says

OURS, THEIRS = owner_of(CHAT), owner_of(replace(CHAT, base_url="https://other.example/v1"))
SIGNED = {"google": {"thought_signature": "c2ln+/="}}

sound = st.from_regex(r"[a-zA-Z0-9_-]{1,70}", fullmatch=True)
ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=90) | sound
extras = st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=9) | st.integers(-9, 9), max_size=2)


@given(call_id=ids, extra=extras)
def test_an_id_is_sound_and_comes_back_whole(call_id: str, extra: dict[str, Any] | None) -> None:
    told = handed(call_id, extra, OURS)
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", told)
    assert returned(told, OURS) == Carried(call_id, extra or None)
    assert handed(call_id, extra, OURS) == told


@given(call_id=ids, extra=extras)
def test_nobody_else_gets_what_it_carries(call_id: str, extra: dict[str, Any] | None) -> None:
    found = returned(handed(call_id, extra, OURS), THEIRS)
    assert found.extra_content is None
    assert found.id is not None
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", found.id)


@given(one=ids, other=ids)
def test_two_calls_keep_two_ids(one: str, other: str) -> None:
    told = [returned(handed(each, SIGNED, OURS), THEIRS).id for each in (one, other)]
    assert (told[0] == told[1]) is (one == other)


def test_one_that_is_sound_and_carries_nothing_stays() -> None:
    nothing: tuple[object, ...] = (None, {}, "x", 5)
    for extra in nothing:
        assert handed("call_1", extra, OURS) == "call_1"


def test_what_is_too_much_is_not_carried() -> None:
    most = {"google": "x" * (MOST_CARRIED_BYTES - len(msgspec.json.encode({"extra_content": {"google": ""}})))}
    assert returned(handed("call_1", most, OURS), OURS).extra_content == most
    assert handed("call_1", {"google": most["google"] + "x"}, OURS) == "call_1"


DEEP = b'{"extra_content":' + b"[" * 5_000


@pytest.mark.parametrize("carried", [b"{", b"[]", b'{"id":5}', b'{"extra_content":[]}', b"\xff", DEEP])
def test_what_only_looks_like_one_carries_nothing(carried: bytes) -> None:
    assert returned(f"call_1__x{OURS}_{urlsafe_b64encode(carried).decode().rstrip('=')}", OURS) == Carried("call_1")


@pytest.mark.parametrize("call_id", ["call_1__x", f"call_1__x{OURS}", f"call 1__x{OURS}_e30", f"call_1__x{OURS}_e30="])
def test_any_other_id_is_the_clients_own(call_id: str) -> None:
    assert returned(call_id, OURS) == Carried(call_id)


@pytest.mark.parametrize("call_id", [None, 5])
def test_what_is_no_id_is_none(call_id: object) -> None:
    assert returned(call_id, OURS) == Carried(None)


def test_accounts_at_one_address_are_one_provider() -> None:
    assert owner_of(replace(CHAT, name="second", api_key=Secret("sk-second"))) == OURS != THEIRS


def test_a_conversation_returns_what_its_provider_gave() -> None:
    call = {"id": "functions.f:0", "function": {"name": "f", "arguments": "{}"}, "extra_content": SIGNED}
    plain = {"id": "call_2", "function": {"name": "f", "arguments": "{}"}}
    content = message(chat(says(None, "tool_calls", tool_calls=[call, plain])))["content"]
    results = [{"type": "tool_result", "tool_use_id": each["id"], "content": "done"} for each in content]
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": content}, {"role": "user", "content": results}]
    _, again, first, second = sent(messages=said)["messages"]
    found = [(each["id"], each.get("extra_content")) for each in again["tool_calls"]]
    assert found == [("functions.f:0", SIGNED), ("call_2", None)]
    assert [each["tool_call_id"] for each in (first, second)] == ["functions.f:0", "call_2"]
    elsewhere = sent(replace(CHAT, base_url="https://other.example/v1"), messages=said)["messages"]
    assert elsewhere[1]["tool_calls"][0].keys() == {"id", "type", "function"}
    assert elsewhere[1]["tool_calls"][0]["id"] == elsewhere[2]["tool_call_id"] != "functions.f:0"
