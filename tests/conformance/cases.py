"""The rows and fixtures as files have them: read strictly, requests made into the very bytes to send.

What the rows mean is said in the README beside them; `gateway` is asked nothing here.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks, which provider's script answers, and what is laid over the configuration."""

    provider: str
    key: str
    overlay: str | None = None


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One promise: a request, what the providers say to it, and what has to be seen on both sides."""

    id: str
    source: str
    section: str
    shows: str
    setup: Setup
    request: dict[str, Any]
    upstream: str | dict[str, Any] | list[dict[str, Any]] | None
    expect: dict[str, Any]
    leaves_state: bool = False


class Request(msgspec.Struct, frozen=True):
    """What goes to the gateway, exactly. `body` None is none at all."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes | None


class Suite(msgspec.Struct, frozen=True):
    """A directory of rows."""

    directory: Path
    fixtures: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> "Suite":
        """Return the suite of a directory."""
        return cls(directory, strict_json((directory / "fixtures.json").read_text("utf-8")))

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield each row with its topic."""
        for path in [*sorted((self.directory / "rows").glob("*.jsonl")), self.directory / "printed" / "cases.jsonl"]:
            topic = path.stem if path.parent.name == "rows" else path.parent.name
            for line in path.read_text("utf-8").split("\n"):
                if line:
                    yield topic, msgspec.convert(strict_json(line), Row)

    def config(self, overlay: str | None, addresses: Mapping[str, str]) -> dict[str, Any]:
        """Return the gateway's configuration; `addresses` are what the placeholders stand for."""
        settings = self.fixtures["config"]
        if overlay is not None:
            settings = merged(settings, self.fixtures["overlays"][overlay])
        text = re.sub(r"\{(upstream:\w+|closed_port)\}", lambda found: addresses[found[1]], json.dumps(settings))
        return dict(json.loads(text))

    def providers(self) -> list[str]:
        """Return the names of all providers."""
        return list(self.fixtures["config"]["providers"])

    def request(self, row: Row) -> Request:
        """Return a row's request as it is sent."""
        asked = row.request
        secrets = {key["name"]: key["secret"] for key in self.fixtures["config"]["keys"]}
        headers = [
            (name, re.sub(r"\{secret:(\w+)\}", lambda found: secrets[found[1]], value))
            for name, value in asked.get("headers", [])
        ]
        if "bare" not in asked:
            headers = [("authorization", f"Bearer {secrets[row.setup.key]}"), ("content-type", "application/json"), *headers]
        return Request(asked["method"], asked["path"], headers, self._body(asked))

    def replies(self, row: Row) -> list[dict[str, Any]]:
        """Return what the providers may say, in the order in which it is looked at."""
        match row.upstream:
            case None:
                return []
            case str(name):
                return [self.fixtures["replies"][name]]
            case dict(reply):
                return [reply]
            case replies:
                return replies

    def file(self, name: str) -> bytes:
        """Return a file that a row names."""
        return (self.directory / name).read_bytes()

    def _body(self, asked: Mapping[str, Any]) -> bytes | None:
        if "json" in asked:
            return json.dumps(asked["json"]).encode()
        if "text" in asked:
            return str(asked["text"]).encode()
        if "base64" in asked:
            return base64.b64decode(asked["base64"], validate=True)
        if "fill" in asked:
            return "".join(text * times for text, times in asked["fill"]).encode()
        if "file" not in asked:
            return None
        if "patch" not in asked:
            return self.file(asked["file"])
        return json.dumps(strict_json(self.file(asked["file"]).decode()) | asked["patch"]).encode()


def strict_json(text: str) -> Any:
    """Read JSON in which no name comes twice and every number is one. Raises `ValueError`."""
    return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)


def merged(settings: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with an overlay merged in, objects member by member."""
    both = {
        name: merged(settings[name], value)
        for name, value in overlay.items()
        if isinstance(value, dict) and isinstance(settings.get(name), dict)
    }
    return {**settings, **overlay, **both}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a name comes twice among {[name for name, _ in pairs]}")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
