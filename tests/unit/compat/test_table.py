"""What clients' programs tell becomes a verdict that a failure cannot hide from."""

import pytest

from tests.compat.table import Outcome, outcome, table


def test_what_a_program_tells_is_counted() -> None:
    said = (
        "VERSION some 1.2\nPASS chat\na warning of its own\nFAIL stream: Mismatch: end: 'stop' instead of 'length'\nPASS tools\n"
    )
    one = outcome("some", said, "", 1.5)
    assert one == Outcome("some", "some 1.2", ("chat", "tools"), ("stream: Mismatch: end: 'stop' instead of 'length'",), 1.5)
    assert (one.ok, one.verdict) == (False, "FAIL")


@pytest.mark.parametrize(
    ("said", "died", "failed"),
    [
        ("PASS chat\n", "ended with 1: KeyError", "the program: ended with 1: KeyError"),
        ("", "ended with -9: no word", "the program: ended with -9: no word"),
        ("VERSION some 1.2\n", "", "the program: told of no scenario"),
        ("", "", "the program: told of no scenario"),
    ],
)
def test_a_program_that_ends_badly_or_tells_of_nothing_has_failed(said: str, died: str, failed: str) -> None:
    one = outcome("some", said, died, 0.0)
    assert (one.ok, one.failed) == (False, (failed,))


def test_what_does_not_run_has_not_failed_and_says_why() -> None:
    one = Outcome("some", absent="no node")
    assert (one.ok, one.verdict) == (True, "not run: no node")


def test_the_table_has_a_line_for_each_client_and_each_failure() -> None:
    good, bad = outcome("good", "VERSION good 1\nPASS a\n", "", 0.25), outcome("bad", "FAIL b: why\nFAIL c: too\n", "", 12.0)
    assert table([good, bad, Outcome("none", absent="no node")]).splitlines() == [
        "client          version  pass fail     time  verdict",
        "good            good 1      1    0    0.2 s  PASS",
        "bad                         0    2   12.0 s  FAIL",
        "none                        0    0    0.0 s  not run: no node",
        "FAIL bad: b: why",
        "FAIL bad: c: too",
    ]
