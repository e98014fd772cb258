from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.over_chat_logprobs import LOWEST, Offsets, bounded, likeliest, tokens_of
from tests.unit.providers.chatting import scored, token

ARRAYS = {"tokens", "token_logprobs", "top_logprobs", "text_offset"}

texts = st.lists(st.text(min_size=1, max_size=4), max_size=6)


def legacy(*tokens: dict[str, object], start: int = 0, end: int | None = None) -> dict[str, object]:
    return dict(Offsets(start).legacy(tokens_of(scored(*tokens)), end))


def test_each_token_has_an_entry_in_each_array() -> None:
    assert legacy(token("Hel", -0.1, ("Hel", -0.1), ("Hi", -2.5)), token("lo", -0.2, ("la", -1.9)), start=6) == {
        "tokens": ["Hel", "lo"],
        "token_logprobs": [-0.1, -0.2],
        "top_logprobs": [{"Hel": -0.1, "Hi": -2.5}, {"la": -1.9, "lo": -0.2}],
        "text_offset": [6, 9],
    }


def test_of_two_tokens_that_read_the_same_the_likelier_counts() -> None:
    (found,) = tokens_of(scored(token("a", -2.0, ("a", -0.3), ("b", -1.0), ("a", -3.0))))
    assert likeliest(found) == {"a": -0.3, "b": -1.0}


@pytest.mark.parametrize(("logprob", "expected"), [(-0.5, -0.5), (0, 0), (-100_000.0, LOWEST), (None, LOWEST)])
def test_nothing_lies_below_the_lowest(logprob: float | None, expected: float) -> None:
    (found,) = tokens_of(scored(token("a", logprob)))
    assert bounded(found) == expected
    assert likeliest(found) == {"a": expected}


def test_a_character_that_several_tokens_share_counts_once() -> None:
    parts = [token("\ufffd", bytes=[byte]) for byte in "🌍".encode()]
    assert legacy(*parts, token("!", bytes=[33]), start=2)["text_offset"] == [2, 3, 3, 3, 3]


@given(texts, st.integers(0, 9), st.lists(st.integers(0, 6), max_size=3))
def test_offsets_point_at_their_tokens_however_they_come(parts: list[str], start: int, cuts: list[int]) -> None:
    text, offsets = "".join(parts), Offsets(start)
    tokens = tokens_of(scored(*map(token, parts)))
    places = [0, *sorted(min(cut, len(tokens)) for cut in cuts), len(tokens)]
    found = [offsets.legacy(tokens[a:b], len(text)) for a, b in pairwise(places)]
    said = [each for some in found for each in some["tokens"]]  # type: ignore[attr-defined]
    at = [each for some in found for each in some["text_offset"]]  # type: ignore[attr-defined]
    assert said == parts
    assert all(text[place - start :].startswith(part) for place, part in zip(at, parts, strict=True))


@given(texts, st.integers(0, 20))
def test_what_was_cut_off_the_text_is_cut_off_the_arrays(parts: list[str], end: int) -> None:
    found = legacy(*map(token, parts), start=3, end=end)
    assert found.keys() == ARRAYS
    assert len({len(found[name]) for name in ARRAYS}) == 1  # type: ignore[arg-type]
    kept = found["tokens"]
    assert isinstance(kept, list)
    assert kept == parts[: len(kept)]
    assert len("".join(kept[:-1])) < end or not kept
    assert len("".join(kept)) >= min(end, len("".join(parts)))


def test_a_refusals_tokens_count_too() -> None:
    assert [each.token for each in tokens_of({"content": None, "refusal": [token("No")]})] == ["No"]


@pytest.mark.parametrize("stated", [None, {}, [], "x", {"content": None}, {"content": [1]}, {"content": [{"token": 1}]}])
def test_what_is_not_to_be_understood_is_nothing(stated: object) -> None:
    assert tokens_of(stated) == []


def test_what_providers_add_or_leave_out_is_no_matter() -> None:
    (found,) = tokens_of({"content": [{"token": "a", "logprob": -1, "rank": 3}], "x": 1})
    assert likeliest(found) == {"a": -1.0}
    assert msgspec.json.encode(bounded(found)) == b"-1.0"
