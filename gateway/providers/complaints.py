"""An upstream's error body, whatever its shape, as one value (wire contract, 6.4).

Shapes: OpenAI's envelope, vLLM's flat one, FastAPI's `detail` (string, object, list), Anthropic's, Google's (also as a list),
OpenRouter's (in a choice too), a bare string. What the complaint means is decided in `gateway.providers.failures`. Pure.
"""

from collections.abc import Iterable, Mapping

import msgspec

from gateway.faults import FieldError

decode = msgspec.json.Decoder().decode


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """What an upstream complains of, uncleaned: nothing of it is fit to be shown.

    `words` are its machine-readable names (type, code, status), in lower case. `number` is a code that looks like a status, 0
    without one. `text` is everything it says, in lower case, for patterns.
    """

    message: str = ""
    param: str | None = None
    code: str | None = None
    words: frozenset[str] = frozenset()
    number: int = 0
    text: str = ""
    fields: tuple[FieldError, ...] = ()


NOTHING = Complaint()


def complaint_of(body: bytes) -> Complaint:
    """Read an error body; what is not JSON complains of nothing."""
    try:
        return read_complaint(decode(body))
    except (msgspec.DecodeError, RecursionError):
        return NOTHING


def read_complaint(said: object) -> Complaint:
    """Read a decoded error body."""
    if isinstance(said, list):
        said = said[0] if said else None
    if not isinstance(said, Mapping):
        return NOTHING
    detail = said.get("detail")
    if isinstance(detail, list) and not said.get("error"):
        return _listed(detail)
    for inner in (said.get("error"), detail, _error_of_choice(said.get("choices"))):
        if isinstance(inner, str):
            return _flat({"message": inner})
        if isinstance(inner, Mapping):
            nested = inner.get("error")
            return _flat({"message": nested} if isinstance(nested, str) else inner)
    return _flat(said)


def _error_of_choice(choices: object) -> object:
    """Return the error that stands in the first choice of an answer, where OpenRouter tells how one has ended."""
    first = choices[0] if isinstance(choices, list) and choices else None
    return first.get("error") if isinstance(first, Mapping) else None


def _flat(said: Mapping[str, object]) -> Complaint:
    message, param, code = said.get("message"), said.get("param"), said.get("code")
    shown = message if isinstance(message, str) else ""
    metadata = said.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    return Complaint(
        message=shown,
        param=param if isinstance(param, str) else None,
        code=code if isinstance(code, str) else None,
        words=frozenset(word.lower() for word in (said.get("type"), said.get("status"), code) if isinstance(word, str)),
        number=_number(code),
        text=f"{shown} {raw if isinstance(raw, str) else ''}"[:4096].strip().lower(),
    )


def _listed(detail: Iterable[object]) -> Complaint:
    fields = tuple(field for entry in detail if (field := _field(entry)) is not None)
    if not fields:
        return NOTHING
    first = fields[0]
    param = ".".join(str(step) for step in first.loc if step != "body")
    return Complaint(
        message=first.msg, param=param or None, text=" ".join(field.msg for field in fields)[:4096].lower(), fields=fields
    )


def _field(entry: object) -> FieldError | None:
    if not isinstance(entry, Mapping):
        return None
    loc, msg, kind = entry.get("loc"), entry.get("msg"), entry.get("type")
    steps = tuple(step for step in loc if isinstance(step, str | int)) if isinstance(loc, list) else ()
    return FieldError(steps, msg, kind if isinstance(kind, str) else "value_error") if isinstance(msg, str) else None


def _number(code: object) -> int:
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code[:9])
    return code if isinstance(code, int) and 400 <= code < 600 else 0
