"""OpenAI's pictures and files in Anthropic's words: where a file is, and which block its kind wants. Pure."""

from base64 import b64decode
from collections.abc import Mapping

Block = dict[str, object]

BEGIN, END = "data:", ";base64"

KINDS: Mapping[str, str] = {"image/jpg": "image/jpeg"}
"""What kinds of files are called, where clients call them otherwise."""


def source(url: object) -> Block:
    """Return where a file is: in the `data:` URL itself, or wherever else a URL leads."""
    head, found, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if found and head.startswith(BEGIN) and head.endswith(END):
        kind = head[len(BEGIN) :].partition(";")[0].lower()
        return {"type": "base64", "media_type": KINDS.get(kind, kind), "data": data}
    return {"type": "url", "url": url}


def file_block(file: Mapping[str, object]) -> Block:
    """Return a file: a picture as an image, anything else as a document, of text where it is text."""
    where = source(file["file_data"])
    kind, data = str(where.get("media_type", "")), where.get("data")
    if kind.startswith("image/"):
        return {"type": "image", "source": where}
    if kind.startswith("text/") and isinstance(data, str) and (text := _text(data)) is not None:
        where = {"type": "text", "media_type": "text/plain", "data": text}
    titled: Block = {"title": file["filename"]} if file.get("filename") else {}
    return {"type": "document", "source": where, **titled}


def _text(data: str) -> str | None:
    """Return the text that these are; None for what is none, which the provider refuses in its own words."""
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return None
