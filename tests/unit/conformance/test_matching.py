"""Every matcher holds where it should and fails where it should."""

from typing import Any

import pytest

from tests.conformance.matching import differences, header_differences, matches

HOLDS: list[tuple[Any, Any]] = [
    (1, 1.0),
    (5e-05, 0.00005),
    (12345678901234567890123, 12345678901234567890123),
    ("a", "a"),
    (None, None),
    (True, True),
    ([], []),
    ([1, "a"], [1, "a"]),
    ({}, {"a": 1}),
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}),
    ([{"a": 1}], [{"a": 1, "b": 2}]),
    ({"$any": "string"}, ""),
    ({"$any": "integer"}, 3),
    ({"$any": "number"}, 3.5),
    ({"$any": "boolean"}, False),
    ({"$any": "object"}, {}),
    ({"$any": "array"}, []),
    ({"$any": "null"}, None),
    ({"$any": ["string", "null"]}, None),
    ({"$re": "b+"}, "abbc"),
    ({"$near": [1.0, 0.1]}, 1.05),
    ({"$between": [1, 2]}, 2),
    ({"$in": [1, "a"]}, 1.0),
    ({"a": {"$absent_or": [None]}}, {}),
    ({"a": {"$absent_or": [None]}}, {"a": None}),
    ({"a": {"$absent_or": [{"type": "text"}]}}, {"a": {"type": "text"}}),
    ({"$eq": {"a": [1, {"b": None}]}}, {"a": [1.0, {"b": None}]}),
    ({"$eq": 5}, 5),
    ({"$has": [{"a": 1}, 2]}, [0, 2, {"a": 1, "b": 1}]),
    ({"$has": [{"a": 1}, {"$any": "object"}]}, [{"a": 1}, {}]),
    ({"$set": [1, {"$any": "integer"}]}, [2, 1]),
    ({"$set": [{"$any": "integer"}, 1]}, [1, 2]),
]

FAILS: list[tuple[Any, Any]] = [
    (1, True),
    (True, 1),
    (0, False),
    (1, "1"),
    (1, 2),
    (12345678901234567890123, 12345678901234567890124),
    (2**53 + 1, float(2**53)),
    ("a", "A"),
    ("a", None),
    (None, False),
    (None, 0),
    ([], {}),
    ([], None),
    ([1], [1, 2]),
    ([1, 2], [1]),
    ([1, 2], [2, 1]),
    ({}, []),
    ({"a": None}, {}),
    ({"a": {"b": 1}}, {"a": {"b": 2}}),
    ({"a": {"b": 1}}, {"a": 1}),
    ({"a": {"$any": "null"}}, {}),
    ({"$any": "string"}, 1),
    ({"$any": "integer"}, True),
    ({"$any": "integer"}, 1.5),
    ({"$any": "number"}, "1"),
    ({"$any": "number"}, False),
    ({"$any": "boolean"}, 1),
    ({"$any": "object"}, []),
    ({"$any": "array"}, {}),
    ({"$any": "null"}, ""),
    ({"$any": ["string", "null"]}, 1),
    ({"$re": "^b"}, "ab"),
    ({"$re": "1"}, 1),
    ({"$near": [1.0, 0.1]}, 1.2),
    ({"$near": [1.0, 0.1]}, True),
    ({"$near": [1.0, 0.1]}, "1"),
    ({"$between": [1, 2]}, 0.99),
    ({"$between": [1, 2]}, 2.01),
    ({"$between": [0, 2]}, True),
    ({"$in": [1, 2]}, 3),
    ({"$in": [1, 2]}, True),
    ({"$in": [{"a": 1}]}, {"a": 1, "b": 2}),
    ({"a": {"$absent_or": []}}, {"a": None}),
    ({"a": {"$absent_or": [None]}}, {"a": 0}),
    ({"a": {"$absent_or": [{"type": "text"}]}}, {"a": {"type": "text", "more": 1}}),
    ({"$eq": {"a": 1}}, {"a": 1, "b": 2}),
    ({"$eq": {"a": 1}}, {}),
    ({"$eq": [1]}, [1, 2]),
    ({"$eq": [{"a": 1}]}, [{"a": 1, "b": 2}]),
    ({"$eq": 1}, True),
    ({"$has": [1, 2]}, [1, 3]),
    ({"$has": [1, 1]}, [1, 2]),
    ({"$has": [1]}, {"0": 1}),
    ({"$set": [1, 2]}, [1, 2, 3]),
    ({"$set": [1, 1]}, [1, 2]),
    ({"$set": [1]}, None),
]


@pytest.mark.parametrize(("expected", "given"), HOLDS, ids=repr)
def test_what_fits_holds(expected: Any, given: Any) -> None:
    assert [*differences(expected, given, "x")] == []


@pytest.mark.parametrize(("expected", "given"), FAILS, ids=repr)
def test_what_does_not_fit_is_told(expected: Any, given: Any) -> None:
    assert not matches(expected, given)


def test_every_difference_is_told_with_its_place() -> None:
    told = [*differences({"a": [1, {"b": 2}], "c": 3}, {"a": [0, {}]}, "body")]
    assert told == ["body.a[0]: 0 is not 1", "body.a[1].b is missing", "body.c is missing"]


@pytest.mark.parametrize("expected", [{"$gone": 1}, {"$any": "string", "more": 1}, {"more": 1, "$any": "string"}])
def test_what_is_no_matcher_is_an_error_of_the_row(expected: Any) -> None:
    with pytest.raises(ValueError, match="no matcher"):
        [*differences(expected, 1, "x")]


def test_header_names_ignore_case_and_doubles_are_joined() -> None:
    given = [("X-One", "a"), ("x-one", "b"), ("X-Two", "c")]
    assert [*header_differences({"x-ONE": "a, b", "X-two": {"$re": "^c$"}}, given, "header")] == []
    assert [*header_differences({"x-one": "a"}, given, "header")]
    assert [*header_differences({"x-three": {"$any": "string"}}, given, "header")] == ["header.x-three is missing"]
