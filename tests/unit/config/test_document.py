import pytest

from gateway.config.document import DocumentError, line_of, read


@pytest.mark.parametrize(
    ("raw", "line", "message"),
    [
        (b"", 1, "the file is empty"),
        (b"# nothing\n", 1, "the file is empty"),
        (b"a: 1\n b: 2", 2, "this is not valid YAML"),
        (b"a: 1\n---\nb: 1", 2, "this is not valid YAML"),
        (b"a: *nowhere", 1, "this is not valid YAML"),
        (b"a: \xff", 1, "the file is not UTF-8 text"),
        (b"a: 1\nb: \x00", 2, "the file holds the control character U+0000"),
        ("a: \ue000".encode(), 1, "the private characters"),
        (b"[" * 500, 1, "the file is nested too deeply"),
    ],
)
def test_what_is_no_document_is_refused_with_its_line(raw: bytes, line: int, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        read(raw)
    assert error.value.problem.line == line
    assert error.value.problem.message.startswith(message)


def test_a_byte_order_mark_is_no_content() -> None:
    assert line_of(read(b"\xef\xbb\xbf# a\na: 1")) == 2
