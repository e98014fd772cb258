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
            b'{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":5,"cache_write_tokens":3}}',
            Usage(input=9, output=1, cached=5, cache_write=3),
        ),
        (
            b'{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cache_write_tokens":3,"cache_write_1h_tokens":2}}',
            Usage(input=9, output=1, cache_write=3, cache_write_1h=2),
        ),
        (
            b'{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cache_write_tokens":3,"cache_write_1h_tokens":8}}',
            Usage(input=9, output=1, cache_write=3, cache_write_1h=3),
        ),
        (
            b'{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":5,"cache_write_tokens":30}}',
            Usage(input=9, output=1, cached=5, cache_write=4),
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
        (b'{"prompt_tokens":26,"total_tokens":35}', Usage(input=26, output=9)),
        (b'{"prompt_tokens":null,"completion_tokens":9,"total_tokens":35}', Usage(input=26, output=9)),
        (b'{"prompt_tokens":26,"total_tokens":9}', Usage(input=26)),
        (b'{"completion_tokens":null,"prompt_tokens":null}', None),
        (b'{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}', None),
        (b'{"prompt_tokens":0,"total_tokens":35}', None),
        (b"{}", None),
        (b"null", None),
        (b"[]", None),
        (b"{", None),
        (b'{"prompt_tokens":1e999}', None),
    ],
)
def test_usage_is_read(raw: bytes, expected: Usage | None) -> None:
    assert usage_of(raw) == expected


BEFORE = Usage(input=26, output=3, cached=20, reasoning=2)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"prompt_tokens": 30, "completion_tokens": 9}, Usage(input=30, output=9, cached=20, reasoning=2)),
        ({"completion_tokens": 9}, Usage(input=26, output=9, cached=20, reasoning=2)),
        ({"prompt_tokens": 10}, Usage(input=10, output=3, cached=10, reasoning=2)),
        ({"completion_tokens": 9, "total_tokens": 40}, Usage(input=31, output=9, cached=20, reasoning=2)),
        (
            {"completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": None}},
            Usage(input=26, output=1, cached=20, reasoning=1),
        ),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        (None, None),
    ],
)
def test_the_last_word_on_each_figure_counts(stated: object, expected: Usage | None) -> None:
    assert read_usage(stated, BEFORE) == expected


def test_total() -> None:
    assert Usage(input=3, output=4, cached=2, reasoning=1).total == 7


figures = st.integers() | st.floats() | st.none() | st.text(max_size=3)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "prompt_tokens": figures,
            "completion_tokens": figures,
            "prompt_tokens_details": st.none() | st.fixed_dictionaries({"cached_tokens": figures, "cache_write_tokens": figures}),
            "completion_tokens_details": figures | st.fixed_dictionaries({"reasoning_tokens": figures}),
        },
    )
)
def test_no_statement_makes_a_figure_that_cannot_be(stated: dict[str, object]) -> None:
    usage = read_usage(stated)
    if usage is not None:
        assert 0 <= usage.cached <= usage.cached + usage.cache_write <= usage.input <= MOST_TOKENS
        assert 0 <= usage.reasoning <= usage.output <= MOST_TOKENS


COUNTS = st.integers(0, 10_000)


@given(prompt=COUNTS, completion=st.integers(1, 10_000), reasoning=COUNTS, told=st.booleans(), summed=st.booleans())
def test_reasoning_outside_is_in_the_output_once(prompt: int, completion: int, reasoning: int, told: bool, summed: bool) -> None:
    stated: dict[str, object] = {"prompt_tokens": prompt, "completion_tokens": completion}
    if told:
        stated["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    if summed:
        stated["total_tokens"] = prompt + completion + reasoning
    found = read_usage(stated, reasoning_outside=True)
    assert found is not None
    assert (found.input, found.output) == (prompt, completion + (reasoning if told or summed else 0))
    assert found.reasoning == (reasoning if told else 0)
