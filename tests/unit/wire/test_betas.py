"""The betas that a request's headers name."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.betas import MOST_BETAS, NAME, USUAL, betas_of


def test_they_are_named_in_one_header_or_several() -> None:
    headers = [(b"anthropic-beta", b"b-1, a-2,,b-1"), (b"x-api-key", b"sk-1"), (b"anthropic-beta", b"c-3")]
    assert betas_of(headers) == ("b-1", "a-2", "c-3")
    assert betas_of([(b"x-api-key", b"sk-1")]) == ()


@pytest.mark.parametrize(
    "value", [b"A-1", b"a b", b"a\tb", b"a_1", b"a=1", b"a;b", b"*", b"x" * 65, "\u00e9".encode("latin-1"), b"a\r\nb: c"]
)
def test_what_is_no_name_is_left_out(value: bytes) -> None:
    assert betas_of([(b"anthropic-beta", value + b",a-1")]) == ("a-1",)


@given(value=st.binary())
def test_nothing_but_names_is_read(value: bytes) -> None:
    found = betas_of([(b"anthropic-beta", value)])
    assert all(NAME.fullmatch(name.encode()) for name in found)
    assert len(found) == len({*found}) <= MOST_BETAS


def test_there_is_an_end_to_them() -> None:
    assert len(betas_of([(b"anthropic-beta", b",".join(b"a-%d" % place for place in range(99)))])) == MOST_BETAS


@pytest.mark.parametrize(
    ("name", "usual"),
    [
        ("claude-code-20250219", True),
        ("interleaved-thinking-2025-05-14", True),
        ("fine-grained-tool-streaming-2025-05-14", True),
        ("context-management-2025-06-27", True),
        ("oauth-2025-04-20", False),
        ("context-1m-2025-08-07", False),
        ("fast-mode-2026-02-01", False),
        ("mcp-client-2025-11-20", False),
        ("files-api-2025-04-14", False),
        ("server-side-fallback-2026-07-01", False),
        ("compact-2026-01-12", False),
    ],
)
def test_usual_is_what_costs_and_keeps_nothing(name: str, usual: bool) -> None:
    assert any(fnmatchcase(name, pattern) for pattern in USUAL) is usual
