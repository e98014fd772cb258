import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.usage import MOST_TOKENS, Usage, read_usage, usage_of


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}', Usage(input=10, output=20)),
        (b'{"prompt_tokens":10,"completion_tokens":0,"total_tokens":10}', Usage(input=10)),
        (
            b'{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":null,"completion_tokens_details":null}',
            Usage(input=10, output=2),
        ),
        (
            b'{"prompt_tokens":1000,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":900}}',
            Usage(input=1000, output=10, cached=900),
        ),
        (
            b'{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":90}}',
            Usage(input=5, output=1, cached=5),
        ),
        (
            b'{"prompt_tokens":64,"completion_tokens":135,"completion_tokens_details":{"reasoning_tokens":78}}',
            Usage(input=64, output=135, reasoning=78),
        ),
        (b'{"prompt_tokens":-3,"completion_tokens":7}', Usage(output=7)),
        (b'{"prompt_tokens":3.9,"completion_tokens":7.0}', Usage(input=3, output=7)),
        (b'{"prompt_tokens":1000000000000000000,"completion_tokens":7}', Usage(output=7)),
        (b'{"prompt_tokens":"12","completion_tokens":7,"prompt_tokens_details":"none"}', Usage(output=7)),
        (b'{"prompt_tokens":true,"completion_tokens":7}', Usage(output=7)),
        (b'{"completion_tokens":null,"prompt_tokens":null}', None),
        (b"{}", None),
        (b"null", None),
        (b"[]", None),
        (b"{", None),
        (b'{"prompt_tokens":1e999}', None),
    ],
)
def test_usage_is_read(raw: bytes, expected: Usage | None) -> None:
    assert usage_of(raw) == expected


def test_total() -> None:
    assert Usage(input=3, output=4, cached=2, reasoning=1).total == 7


figures = st.integers() | st.floats() | st.none() | st.text(max_size=3)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "prompt_tokens": figures,
            "completion_tokens": figures,
            "prompt_tokens_details": st.none() | st.fixed_dictionaries({"cached_tokens": figures}),
            "completion_tokens_details": figures | st.fixed_dictionaries({"reasoning_tokens": figures}),
        },
    )
)
def test_no_statement_makes_a_figure_that_cannot_be(stated: dict[str, object]) -> None:
    usage = read_usage(stated)
    if usage is not None:
        assert 0 <= usage.cached <= usage.input <= MOST_TOKENS
        assert 0 <= usage.reasoning <= usage.output <= MOST_TOKENS
