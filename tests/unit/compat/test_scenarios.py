"""A program's scenarios are each told of, whatever they raise, and their checks fail on what they are to find."""

from collections.abc import Iterator

import pytest

from tests.compat.scenarios import FLAKY_WORDS, MismatchError, answered, arguments, broken, play, raised


class Scenarios:
    def good(self) -> None:
        """Nothing is amiss."""

    def differs(self) -> None:
        answered("text", "stop", (3, 12, 15))

    def fails(self) -> None:
        raise KeyError("over\ntwo lines")

    def _own(self) -> None:
        raise AssertionError("no scenario")


def test_each_scenario_is_told_of_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    play("some 1.2", Scenarios())
    assert capsys.readouterr().out.splitlines() == [
        "VERSION some 1.2",
        "PASS good",
        "FAIL differs: MismatchError: end: 'stop' instead of 'length'",
        "FAIL fails: KeyError: 'over\\ntwo lines'",
    ]


@pytest.mark.parametrize(
    ("text", "end", "tokens"),
    [
        ("", "length", (3, 12, 15)),
        (None, "length", (3, 12, 15)),
        ("text", None, (3, 12, 15)),
        ("text", "length", (3, 11, 14)),
        ("text", "length", (3, 12, 16)),
        ("text", "length", (0, 12, 12)),
        ("text", "length", (None, None, None)),
    ],
)
def test_an_answer_that_lacks_something_is_found(text: str | None, end: str | None, tokens: tuple[int | None, ...]) -> None:
    answered("text", "length", (3, 12, 15))
    with pytest.raises(MismatchError):
        answered(text, end, tokens)


@pytest.mark.parametrize(
    ("name", "given"), [("other", '{"unit": "celsius"}'), ("weather", '{"unit": "kelvin"}'), ("weather", "{}"), (None, {})]
)
def test_another_call_of_the_tool_is_found(name: str | None, given: str) -> None:
    arguments("weather", '{"unit": "celsius"}')
    with pytest.raises(MismatchError):
        arguments(name, given)


def test_an_error_of_another_class_is_no_answer_to_what_is_expected() -> None:
    assert raised(LookupError, Scenarios().fails).args == ("over\ntwo lines",)
    with pytest.raises(KeyError):
        raised(ValueError, Scenarios().fails)
    with pytest.raises(MismatchError):
        raised(ValueError, lambda: "an answer")


def words(count: int) -> Iterator[str]:
    yield from ["word "] * count
    raise ValueError("broke off")


def test_a_stream_that_breaks_off_is_read_up_to_there() -> None:
    assert broken(ValueError, words(FLAKY_WORDS)).args == ("broke off",)
    with pytest.raises(MismatchError):
        broken(ValueError, words(FLAKY_WORDS - 1))
    with pytest.raises(MismatchError):
        broken(ValueError, iter(["word "] * FLAKY_WORDS))
