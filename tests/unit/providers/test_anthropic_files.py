from base64 import b64encode
from typing import Any

import pytest

from gateway.providers.anthropic_files import file_block, source


def inline(kind: str, data: bytes = b"hi") -> str:
    return f"data:{kind};base64,{b64encode(data).decode()}"


def block(kind: str, data: bytes = b"hi", **more: Any) -> dict[str, Any]:
    return file_block({"file_data": inline(kind, data), **more})


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("image/png", "image/png"), ("image/jpg", "image/jpeg"), ("Image/JPG", "image/jpeg"), ("image/webp;a=b", "image/webp")],
)
def test_a_picture_has_the_name_of_its_kind(kind: str, expected: str) -> None:
    assert source(inline(kind)) == {"type": "base64", "media_type": expected, "data": "aGk="}


@pytest.mark.parametrize("url", ["https://pictures.example/a.png", "data:image/svg+xml,<svg/>", "aGk=", "", None, 5])
def test_anything_else_is_where_it_says(url: object) -> None:
    assert source(url) == {"type": "url", "url": url}


def test_a_text_is_a_document_of_text() -> None:
    for kind in ("text/plain", "text/markdown;charset=utf-8"):
        assert block(kind, "hé".encode(), filename="a.txt") == {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "hé"},
            "title": "a.txt",
        }


def test_a_picture_is_an_image() -> None:
    found = {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}
    assert block("image/jpg", filename="a.jpg") == {"type": "image", "source": found}


@pytest.mark.parametrize(
    "data", [inline("application/pdf"), inline("text/plain", b"\xff"), "data:text/plain;base64,=", "https://a.example/b.pdf", 5]
)
def test_other_files_are_documents_as_they_are(data: object) -> None:
    assert file_block({"file_data": data}) == {"type": "document", "source": source(data)}
