"""The shapes in which providers say that something went wrong (wire contract, 6.4): data for several tests."""

from collections.abc import Callable
from typing import Any

import msgspec

encode = msgspec.json.Encoder().encode

GIVEN_AWAY = ("up-T1", "up-T2", "sk-up-p", "sk-up-q", "worker-3", "10.1.2.3", "sk-up-0123456789", "org-AbC123456")
"""What stands in every error of a provider and in nothing that a client is told."""

TELLTALE = "UPMODEL by UPKEY at worker-3.gpu.internal:8000, https://10.1.2.3/v1, key sk-up-0123456789, org-AbC123456"
"""A message's end that has all of it, once the model and the credential that were sent are put in."""


class Error(msgspec.Struct, frozen=True):
    """What one error says: a status, in words, to people."""

    number: int
    word: str
    text: str

    @property
    def message(self) -> str:
        return f"{self.text} [{TELLTALE}]"


Shape = Callable[[Error], Any]


def openai(error: Error) -> Any:
    return {"error": {"message": error.message, "type": error.word, "param": None, "code": error.number or None}}


def openai_code(error: Error) -> Any:
    code = error.word or str(error.number)
    return {"error": {"message": error.message, "type": "some_error", "param": None, "code": code}}


def old_vllm(error: Error) -> Any:
    return {"object": "error", "message": error.message, "type": error.word, "param": None, "code": error.number}


def detail_text(error: Error) -> Any:
    return {"detail": error.message}


def detail_object(error: Error) -> Any:
    return {"detail": {"error": error.message}}


def detail_list(error: Error) -> Any:
    return {"detail": [{"loc": ["body", "n"], "msg": error.message, "type": "value_error"}]}


def atoma(error: Error) -> Any:
    return {"error": {"code": error.word.upper() or "ERROR", "message": error.message}}


def openrouter(error: Error) -> Any:
    metadata = {"raw": error.message, "provider_name": "worker-3", "headers": {"x": "sk-up-0123456789"}}
    return {"error": {"code": error.number, "message": error.message, "metadata": metadata}}


def openrouter_choice(error: Error) -> Any:
    choice = {"index": 0, "error": {"code": error.number, "message": error.message}, "finish_reason": "error"}
    return {"id": "up-1", "choices": [choice]}


def anthropic(error: Error) -> Any:
    return {"type": "error", "error": {"type": error.word, "message": error.message}}


def google(error: Error) -> Any:
    return {"error": {"code": error.number, "status": error.word.upper(), "message": error.message}}


def google_list(error: Error) -> Any:
    return [google(error)]


def text(error: Error) -> Any:
    return {"error": error.message}


def bare(error: Error) -> Any:
    return error.message


def html(error: Error) -> bytes:
    return f"<html><h1>{error.message}</h1></html>".encode()


def empty(_: Error) -> bytes:
    return b""


NUMBERED = (openai, openai_code, old_vllm, openrouter, openrouter_choice, google, google_list)
"""Those that can say a status themselves."""

WORDED = (openai, openai_code, old_vllm, atoma, anthropic, google, google_list)
"""Those that name what is wrong."""

SPOKEN = (openai, old_vllm, detail_text, detail_object, atoma, openrouter, anthropic, google, google_list, text)
"""Those that tell a person what is wrong."""

WORDLESS = (html, empty, bare)

ALL = tuple(dict.fromkeys((*NUMBERED, *WORDED, *SPOKEN, detail_list, *WORDLESS)))


def bytes_of(shape: Shape, error: Error) -> bytes:
    """Return an error's body in this shape."""
    said = shape(error)
    return said if isinstance(said, bytes) else encode(said)
