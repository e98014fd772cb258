"""Rows become the very bytes that they describe."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.cases import Row, Suite, merged, strict_json

CONFIG = {
    "providers": {"p": {"base_url": "http://{upstream:p}/v1"}, "dead": {"base_url": "http://{closed_port}/v1"}},
    "keys": [{"name": "full", "secret": "s-full"}, {"name": "free", "secret": "s-free"}],
}


def suite(directory: Path = Path()) -> Suite:
    return Suite(directory, {"config": CONFIG, "overlays": {}, "replies": {"ok": {"status": 200, "text": "ok"}}})


def row(upstream: Any = None, **request: Any) -> Row:
    named = dict.fromkeys(("source", "section", "shows"), "s")
    setup = {"provider": "p", "key": "full"}
    asked = {"method": "POST", "path": "/v1/completions?a=%2F", **request}
    return msgspec.convert({"id": "x", **named, "setup": setup, "request": asked, "upstream": upstream, "expect": {}}, Row)


def test_headers_are_added_unless_the_row_is_bare() -> None:
    sent = suite().request(row(headers=[["x-api-key", "{secret:free}"], ["x-api-key", "b"]]))
    usual = [("authorization", "Bearer s-full"), ("content-type", "application/json")]
    assert sent.headers == [*usual, ("x-api-key", "s-free"), ("x-api-key", "b")]
    assert suite().request(row(bare=True)).headers == []
    assert sent.target == "/v1/completions?a=%2F"


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ({}, None),
        ({"json": {"a": 1}}, b'{"a": 1}'),
        ({"text": '{"a":  1.50,'}, b'{"a":  1.50,'),
        ({"base64": "AP8="}, b"\x00\xff"),
        ({"fill": [["[", 3], ["x", 1]]}, b"[[[x"),
        ({"file": "f.json"}, b'{"a":  1, "b": 2}'),
        ({"file": "f.json", "patch": {"a": None, "c": 3}}, b'{"a": null, "b": 2, "c": 3}'),
    ],
)
def test_bodies(form: dict[str, Any], body: bytes | None, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(b'{"a":  1, "b": 2}')
    assert suite(tmp_path).request(row(**form)).body == body


def test_replies_are_named_given_or_listed() -> None:
    reply = {"status": 500, "text": ""}
    assert suite().replies(row()) == []
    assert suite().replies(row("ok")) == [{"status": 200, "text": "ok"}]
    assert suite().replies(row(reply)) == [reply]
    assert suite().replies(row([reply, reply])) == [reply, reply]


def test_settings_are_laid_over() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4}, "e": 5}) == {"a": {"b": 4, "c": 2}, "d": 3, "e": 5}


def test_placeholders_become_addresses(tmp_path: Path) -> None:
    (tmp_path / "fixtures.json").write_text(json.dumps({"config": CONFIG, "overlays": {"small": {"limits": {"body": 1}}}}))
    found = Suite.read(tmp_path).config("small", {"upstream:p": "h:1", "closed_port": "h:2"})
    assert found["providers"]["p"]["base_url"] == "http://h:1/v1"
    assert found["providers"]["dead"]["base_url"] == "http://h:2/v1"
    assert found["limits"] == {"body": 1}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', "NaN", '{"a": Infinity}', "{", ""])
def test_json_is_read_strictly(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        strict_json(text)
