"""Betas of Messages at a provider, and what of a body needs one."""

import msgspec
import pytest
from msgspec.structs import replace

from gateway.policy.catalogue import Provider
from gateway.providers.messages_betas import FIELDS
from gateway.providers.protocol import Call
from gateway.wire.betas import USUAL
from tests.unit.providers.asking import CHAT, CLAUDE, asked, called

OPEN = replace(CLAUDE, betas=("*",))
EDITING = "context-management-2025-06-27"


def call(at: Provider, *betas: str, **fields: object) -> Call:
    return called(replace(asked(**fields), betas=betas), at)


def named(made: Call) -> list[str]:
    """Return the betas that a call names: in one header, or in none."""
    found = [value.decode() for name, value in made.headers if name == b"anthropic-beta"]
    assert len(found) <= 1
    return found[0].split(",") if found else []


class TestWhichLeave:
    @pytest.mark.parametrize(
        ("allowed", "leaving"),
        [
            ((), []),
            (("*",), ["a-1", "b-2"]),
            (("b-*",), ["b-2"]),
            (("a-1", "b-2"), ["a-1", "b-2"]),
            (("a",), []),
            (("A-1",), []),
        ],
    )
    def test_those_that_the_provider_allows(self, allowed: tuple[str, ...], leaving: list[str]) -> None:
        for stream in (False, True):
            assert named(call(replace(CLAUDE, betas=allowed), "a-1", "b-2", stream=stream)) == leaving

    def test_a_request_that_asks_for_none_has_none(self) -> None:
        assert named(call(OPEN)) == []

    def test_the_operators_own_are_always_there(self) -> None:
        at = replace(OPEN, headers={"Anthropic-Beta": "a-1, own_2"})
        assert named(call(at)) == ["a-1", " own_2"]
        assert named(call(at, "b-2", "a-1")) == ["a-1", "own_2", "b-2"]
        assert named(call(replace(at, betas=()), "b-2")) == ["a-1", " own_2"]

    def test_other_headers_stay(self) -> None:
        usual = call(CLAUDE).headers
        assert [pair for pair in call(OPEN, "a-1").headers if pair not in usual] == [(b"anthropic-beta", b"a-1")]

    def test_chat_knows_none(self) -> None:
        made = call(replace(CHAT, betas=("*",)), EDITING, context_management={"edits": []})
        assert (named(made), made.dropped) == ([], ("context_management",))


class TestWhatNeedsOne:
    @pytest.mark.parametrize(("name", "beta"), [(name, beta) for name, betas in FIELDS.items() for beta in betas])
    def test_it_goes_with_it_alone(self, name: str, beta: str) -> None:
        field = {name: {"a": 1}}
        with_it = call(OPEN, f"{beta}2026-01-01", **field)
        assert (msgspec.json.decode(with_it.body)[name], with_it.dropped) == ({"a": 1}, ())
        for made in (call(OPEN, **field), call(OPEN, "b-2", **field), call(CLAUDE, f"{beta}2026-01-01", **field)):
            assert name not in msgspec.json.decode(made.body)
            assert made.dropped == (name,)

    def test_the_operators_own_is_as_good(self) -> None:
        at = replace(CLAUDE, headers={"anthropic-beta": EDITING})
        assert call(at, context_management={}).dropped == ()

    def test_what_nobody_knows_is_as_unknown_fields_say(self) -> None:
        assert b"of_another_day" in call(CLAUDE, of_another_day=1).body
        assert call(replace(CLAUDE, forward_unknown_fields=False), of_another_day=1).dropped == ("of_another_day",)

    def test_what_a_coding_agent_sends_goes_out(self) -> None:
        names = ("claude-code-20250219", "interleaved-thinking-2025-05-14", EDITING)
        made = call(replace(CLAUDE, betas=USUAL), *names, "oauth-2025-04-20", context_management={"edits": []})
        assert (named(made), made.dropped) == ([*names], ())
