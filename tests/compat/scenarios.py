"""What the programs written with Python clients share: what they ask, how they check, how they tell.

A program is a class whose public methods are scenarios. It prints the version of its client, then a line for each, `PASS name` or
`FAIL name: why`. Standard library alone, because it is imported by interpreters that have one client and nothing else.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

TEXT, CALLS, VECTORS, NATIVE = "noise", "eager", "vectors", "native"
"""The gateway's models that llama.cpp serves: one that says noise, one that is eager to call tools, one for vectors, and the
first again by llama.cpp's own Messages API."""

FAILING, BUSY, FLAKY, LATE, SILENT = "failing", "busy", "flaky", "late", "silent"
"""Those of a provider that fails, has no room, breaks streams off, is late, says nothing until the gateway gives up."""

FLAKY_WORDS, LATE_WORDS = 5, 3
LONG = "word " * 5_000
"""More than the model's context."""

SYSTEM, GREETING = "Be brief.", "Grüße, 世界! \U0001f44b"
MESSAGES: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": GREETING}]

UNITS = ("celsius", "fahrenheit")
SCHEMA: Any = {
    "type": "object",
    "properties": {"unit": {"type": "string", "enum": list(UNITS)}},
    "required": ["unit"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "function": {"name": "weather", "description": "Tell the weather.", "parameters": SCHEMA}}


class Told(NamedTuple):
    """What a user knows: `poor` is a key with next to no tokens a minute, the streams of `patient` have comments in silences."""

    url: str
    secret: str
    poor: str
    patient: str


class MismatchError(Exception):
    """A client saw something else than it should have."""


def told() -> Told:
    """Return what the program was started with."""
    return Told(**json.loads(sys.argv[1]))


def same(what: str, found: object, wanted: object) -> None:
    """Raise `MismatchError` unless they are equal."""
    holds(what, found == wanted, f"{found!r} instead of {wanted!r}")


def holds(what: str, condition: object, found: object) -> None:
    """Raise `MismatchError`, naming what was found, unless the condition is true."""
    if not condition:
        raise MismatchError(f"{what}: {found}")


def answered(text: str | None, end: str | None, tokens: Sequence[int | None]) -> None:
    """Check an answer that was cut at its bound of 12 tokens: `tokens` are those of prompt, completion and both."""
    holds("text", text, repr(text))
    same("end", end, "length")
    prompt, completion, total = tokens
    same("completion tokens", completion, 12)
    holds("prompt tokens", prompt and total == prompt + 12, tokens)


def arguments(name: str | None, found: str | dict[str, Any]) -> None:
    """Check the call of the tool."""
    same("tool", name, "weather")
    chosen(json.loads(found) if isinstance(found, str) else found)


def chosen(found: Any) -> None:
    """Check an object that the schema leaves two forms of."""
    holds("object", found in [{"unit": unit} for unit in UNITS], repr(found))


def raised(kind: type[Exception], ask: Callable[[], object]) -> Any:
    """Return what asking raised, which has to be of this class."""
    try:
        found = ask()
    except kind as error:
        return error
    raise MismatchError(f"{found!r} instead of {kind.__name__}")


def late(text: str) -> None:
    """Check the answer of the model that is late."""
    same("words", len(text.split()), LATE_WORDS)


def broken(kind: type[Exception], parts: Iterable[str]) -> Any:
    """Read a stream that breaks off, part by part; return what it raised, which comes after the words that had come."""
    seen: list[str] = []
    error = raised(kind, lambda: seen.extend(parts))
    same("words before it", len("".join(seen).split()), FLAKY_WORDS)
    return error


def play(version: str, scenarios: object) -> None:
    """Run every scenario and tell how it fared."""
    print(f"VERSION {version}", flush=True)
    with asyncio.Runner() as runner:
        for name in [name for name in vars(type(scenarios)) if not name.startswith("_")]:
            fared = outcome(runner, getattr(scenarios, name))
            print(f"FAIL {name}: {fared}" if fared else f"PASS {name}", flush=True)


def outcome(runner: asyncio.Runner, scenario: Callable[[], object]) -> str:
    """Run a scenario and return what went wrong, in one line, "" where nothing did."""
    try:
        found = scenario()
        if asyncio.iscoroutine(found):
            runner.run(found)
    except Exception as error:  # noqa: BLE001 -- whatever a client raises is told, and the next scenario follows
        return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
    return ""
