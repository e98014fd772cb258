import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidJson, Unprocessable
from gateway.wire.members import splice, split

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
names = st.text(max_size=4)
gaps = st.text(" \t\r\n", max_size=2).map(str.encode)


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """An object as somebody might write it: odd gaps, escaped names, numbers in their own notation."""
    members = draw(st.dictionaries(names, json_values, max_size=5))
    written = []
    for name, value in members.items():
        text = (
            b'"%b"' % b"".join(b"\\u%04x" % ord(c) for c in name)
            if draw(st.booleans()) and name.isascii()
            else msgspec.json.encode(name)
        )
        number = draw(st.sampled_from([b"1.50", b"1e2", b"-0", b"12345678901234567890123"]))
        spelled = number if isinstance(value, float) else msgspec.json.encode(value)
        written.append(draw(gaps) + text + draw(gaps) + b":" + draw(gaps) + spelled + draw(gaps))
    return draw(gaps) + b"{" + (b",".join(written) or draw(gaps)) + b"}" + draw(gaps)


@given(objects())
def test_splicing_nothing_is_identity(body: bytes) -> None:
    assert splice(split(body), {}) == body


@given(objects(), st.dictionaries(names, st.none() | json_values.map(msgspec.json.encode), max_size=4))
def test_a_splice_does_what_the_same_edit_of_a_dict_does(body: bytes, edits: dict[str, bytes | None]) -> None:
    members = split(body)
    expected = members.values()
    for name, value in edits.items():
        if value is None:
            expected.pop(name, None)
        else:
            expected[name] = value
    assert split(splice(members, edits)).values() == expected


@given(st.dictionaries(names, json_values, max_size=4), st.dictionaries(names, st.none() | json_values, max_size=4))
def test_a_body_without_gaps_is_edited_like_one_with_some(value: dict[str, object], edits: dict[str, object]) -> None:
    body = msgspec.json.encode(value)
    texts = {name: None if new is None else msgspec.json.encode(new) for name, new in edits.items()}
    assert split(body).leads is None
    assert b" " + splice(split(body), texts) == splice(split(b" " + body), texts)


@given(objects())
def test_spans_say_where_values_stand(body: bytes) -> None:
    members = split(body)
    for name, value in members.values().items():
        lead, start = members.span(name)
        assert body.startswith(value, start)
        assert msgspec.json.decode(b"{" + body[lead:start].lstrip()[1:] + value + b"}") == {name: msgspec.json.decode(value)}
    assert {name: msgspec.json.decode(value) for name, value in members.values().items()} == msgspec.json.decode(body)


@given(objects(), st.integers(0, 4), st.data())
def test_a_name_that_comes_twice_is_refused(body: bytes, place: int, data: st.DataObject) -> None:
    values = split(body).values()
    if not values:
        return
    twin = [*values][place % len(values)]
    text = data.draw(st.sampled_from([values[twin], b"1", b"12", b"{}"]))
    doubled = body.rstrip()[:-1] + b"," + msgspec.json.encode(twin) + b":" + text + b"}"
    with pytest.raises(InvalidJson):
        split(doubled)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{} {}",
        b'{"a":1,}',
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":01}',
        b'{"a":"\xff"}',
        b'{"\xff":1}',
        b'{"a":{"b":"\xff"}}',
        b"hello",
        b"\xef\xbb\xbf{}",
        b"[1,2",
        b'"\xff"',
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":1}',
        b'{"a":12,"a":1}',
        b'{"x":1,"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_what_is_not_one_clean_document_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidJson):
        split(body)


@pytest.mark.parametrize("body", [b"[]", b'"hi"', b"5", b"null", b" true ", b"[{}]"])
def test_a_document_that_is_no_object_has_the_wrong_shape(body: bytes) -> None:
    with pytest.raises(Unprocessable) as refused:
        split(body)
    assert refused.value.fields[0].loc == ("body",)


@pytest.mark.parametrize(
    ("body", "edits", "expected"),
    [
        (b"{}", {"a": b"1"}, b'{"a":1}'),
        (b"{ }", {"a": None}, b"{ }"),
        (b'{"a":1}', {"a": None}, b"{}"),
        (b'{"a":1}', {"a": None, "b": b"2"}, b'{"b":2}'),
        (b'{"a": 1 , "b": 2}', {"a": None}, b'{"b": 2}'),
        (b'{"a": 1 , "b": 2}', {"b": None}, b'{"a": 1}'),
        (b'{"a": 1, "b": 2, "c": 3}', {"a": None, "b": None, "c": None}, b"{}"),
        (b'{"a": 1, "b": 2, "c": 3}', {"b": b"9", "z": b"0"}, b'{"a": 1, "b": 9, "c": 3,"z":0}'),
        (b'{"a": 1, "b": 2, "c": 3}', {"c": None, "z": b"0"}, b'{"a": 1, "b": 2,"z":0}'),
    ],
)
def test_commas_follow_the_members(body: bytes, edits: dict[str, bytes | None], expected: bytes) -> None:
    assert splice(split(body), edits) == expected


def test_a_nested_name_may_come_twice() -> None:
    assert split(b'{"a":{"b":1,"b":2}}').value("a") == b'{"b":1,"b":2}'


def test_nothing_of_a_body_shows_in_a_repr() -> None:
    members = split(b'{"secret":"word"}')
    assert "word" not in repr(members)
