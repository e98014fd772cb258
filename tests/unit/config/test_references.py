import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.references import Sources, UnresolvedError, resolve, shelter, unshelter


def _no_file(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


FILES = {"/secret": b"from the file\n", "/crlf": b"from windows\r\n", "/two": b"a\n\n", "/binary": b"\xff"}
SOURCES = Sources(
    {"NAME": "value", "EMPTY": "", "BRACES": "${NAME}"}, lambda path: FILES[path] if path in FILES else _no_file(path)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("$NAME {x}", "$NAME {x}"),
        ("${NAME}", "value"),
        ("a-${NAME}-${NAME}-b", "a-value-value-b"),
        ("${EMPTY}", ""),
        ("${NAME:-other}", "value"),
        ("${EMPTY:-other}", "other"),
        ("${MISSING:-}", ""),
        ("${MISSING:-a:-b, c}", "a:-b, c"),
        ("${file:-x}", "x"),
        ("${file:/secret}", "from the file"),
        ("${file:/crlf}", "from windows"),
        ("${file:/two}", "a\n"),
        ("${BRACES}", "${NAME}"),
    ],
)
def test_a_reference_is_replaced_once(text: str, value: str) -> None:
    assert resolve(text, SOURCES) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${MISSING}", "environment variable MISSING is not set"),
        ("${file:/absent}", "file /absent cannot be read: No such file or directory"),
        ("${file:/binary}", "file /binary is not UTF-8 text"),
        ("${}", "what begins with"),
        ("${1X}", "what begins with"),
        ("${NAME", "what begins with"),
        ("${A:-${NAME}}", "what begins with"),
        ("${my pass!word}", "what begins with"),
    ],
)
def test_cfg_01_what_leads_nowhere_is_an_error_that_shows_no_value(text: str, message: str) -> None:
    with pytest.raises(UnresolvedError) as error:
        resolve(text, SOURCES)
    assert str(error.value).startswith(message)
    assert "pass!word" not in str(error.value)


@given(st.text(alphabet="${}[],:#'\"AB \n-"))
def test_sheltering_keeps_every_character_in_its_place(text: str) -> None:
    sheltered = shelter(text)
    assert len(sheltered) == len(text)
    assert unshelter(sheltered) == text


def test_a_document_with_the_stand_ins_is_refused() -> None:
    with pytest.raises(ValueError, match="private characters"):
        shelter("name: \ue003")
