"""What is written is what was meant, whatever is in it."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml import safe_load

from gateway.importing.writing import write

HARD = "\x00\n\x7f\x85\u2028\ufeff\ufffe\uffff"
"""Characters that JSON and YAML write in different ways."""
WORDS = st.text(st.characters(codec="utf-8") | st.sampled_from(HARD), min_size=1, max_size=12)
NAMES = WORDS.filter(lambda word: word != "on")
"""A field of our own is called `on`, and is read as such by the gateway, though not by this reader."""
VALUES = st.recursive(
    WORDS | st.booleans() | st.integers(-(10**9), 10**9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=4),
    max_leaves=12,
)
SECTIONS = st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, min_size=1, max_size=3), min_size=1, max_size=3)


@given(document=SECTIONS)
def test_a_reader_of_yaml_gets_back_what_was_written(document: dict[str, Any]) -> None:
    assert safe_load(write(document, {}, ("a head",))) == document


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("no", '"no"'),
        ("1.20", '"1.20"'),
        ("2027-01-01", '"2027-01-01"'),
        ("a: b", '"a: b"'),
        ("${KEY}", "${KEY}"),
        ("${BASE}/v1", '"${BASE}/v1"'),
        (Decimal("0.00001"), "0.00001"),
        (True, "true"),
    ],
)
def test_a_value_is_quoted_where_it_has_to_be(value: Any, written: str) -> None:
    assert write({"x": value}, {}, ()) == f"\nx: {written}\n"


def test_a_remark_stands_above_the_line_of_its_place() -> None:
    document = {"models": {"m": {"deployments": [{"provider": "p", "model": "x", "limits": {"rpm": 5}}], "price": {"input": 1}}}}
    remarks = {
        ("models", "m", "deployments", 0, "limits", "rpm"): ["of the rate"],
        ("models", "m", "price"): ["of the price", "another"],
    }
    assert write(document, remarks, ()) == (
        "\nmodels:\n  m:\n    deployments:\n      # of the rate\n      - {provider: p, model: x, limits: {rpm: 5}}\n"
        "    # of the price\n    # another\n    price: {input: 1}\n"
    )


def test_what_is_too_long_for_a_line_has_several() -> None:
    long = {f"field{n}": "x" * 20 for n in range(6)}
    text = write({"providers": {"p": long}, "list": [long]}, {}, ())
    assert max(map(len, text.splitlines())) < 60
    assert safe_load(text) == {"providers": {"p": long}, "list": [long]}
