"""Cases CFG-01 and CFG-03: a file says what it means, or it is refused."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.cli.check import EXIT_CONFIG
from gateway.config import ConfigErrors, load
from gateway.config.problems import render
from gateway.config.schema import schema

MODEL = {"deployments": [{"provider": "p", "model": "up-m"}]}

SECRETS = {
    "providers.p.api_key": "${%s}",
    "providers.q.api_key": "Bearer ${%s}",
    "providers.q.headers.x-account": "${%s}",
    "ops.admin_token": "${%s}",
    "keys_pepper": "${%s}",
    "keys[0].secret": "tg_${%s}",
    "redis.url": "redis://:${%s}@redis:6379",
    "database.url": "${file:%s}",
}
"""Where a secret stands, and how it is fetched."""


def with_secrets(written: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with these secrets at their places."""
    providers = {
        "p": {"base_url": "https://p.test/v1", "api_key": written["providers.p.api_key"]},
        "q": {
            "base_url": "https://q.test/v1",
            "api_key": written["providers.q.api_key"],
            "headers": {"x-account": written["providers.q.headers.x-account"]},
        },
    }
    return {
        "providers": providers,
        "models": {"m": MODEL},
        "ops": {"admin_token": written["ops.admin_token"]},
        "keys_pepper": written["keys_pepper"],
        "keys": [{"name": "k", "org": "o", "secret": written["keys[0].secret"]}],
        "orgs": {"o": {"plan": "a"}},
        "plans": {"a": {}},
        "redis": {"url": written["redis.url"]},
        "database": {"url": written["database.url"]},
    }


def refused(text: bytes, directory: Path, environ: dict[str, str] | None = None) -> list[str]:
    """Return what each line says of a file that may not be used, without the file's name."""
    path = directory / "gateway.yaml"
    path.write_bytes(text)
    with pytest.raises(ConfigErrors) as caught:
        load(path, environ or {})
    return [line.removeprefix(str(path)) for line in caught.value.lines]


def test_cfg_01_a_gateway_does_not_start_without_a_secret_that_it_was_to_have(tmp_path: Path) -> None:
    names = {
        where: f"{tmp_path}/not-mounted" if "file" in how else f"NOT_SET_{n}" for n, (where, how) in enumerate(SECRETS.items())
    }
    path = tmp_path / "gateway.yaml"
    path.write_bytes(msgspec.json.encode(with_secrets({where: how % names[where] for where, how in SECRETS.items()})))
    command = [sys.executable, "-m", "gateway", "serve", "--config", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (EXIT_CONFIG, "")
    for where, name in names.items():
        assert [line for line in ended.stderr.splitlines() if f"{where}: " in line and name in line], where


@pytest.mark.parametrize(
    "value", ["<your-key>", "${MASTER_KEY}", "$MASTER_KEY", "{{ .Values.masterKey }}", "", "short", " blanks-around-it "]
)
def test_cfg_01_what_anybody_could_guess_is_no_secret(value: str, tmp_path: Path) -> None:
    """However it comes in; of a text that others wait for the file's own words are told, not what stood there."""
    good = dict.fromkeys(SECRETS, "a-secret-of-sixteen-letters-or-more") | {
        "redis.url": "redis://r.test",
        "database.url": "sqlite:///x",
    }
    for where in ("ops.admin_token", "keys_pepper", "keys[0].secret", "providers.p.api_key"):
        if value == "short" and where.startswith("providers"):
            continue  # how long a provider's credentials are is its own affair
        if value == "" and where == "ops.admin_token":
            continue  # no token: the admin API answers this machine alone
        lines = refused(msgspec.json.encode(with_secrets({**good, where: "${GIVEN}"})), tmp_path, {"GIVEN": value})
        told = [line for line in lines if f" {where}: " in line]
        assert len(told) == 1, (where, lines)
        assert not value or value not in told[0].replace("${NAME}", "")


WRONG = {
    "boolean": ('"true"', '"false"', '"0"', "0", "1", "1e3", "yes", "{}", "[]"),
    "integer": ('"10"', '"false"', "1e3", "1.5", "true", "{}", "[]"),
    "number": ('"10"', '"false"', "true", "{}", "[]"),
    "notation": ('"10"', "10", "1e3", '"false"', "true", "{}", "[]"),
}
"""What is written where a switch, a whole number, a number, or a duration or size is wanted."""


class Setting(msgspec.Struct, frozen=True):
    """A switch or a number of the format. Whoever may write a whole section in its place does so `apart`."""

    where: tuple[str | int, ...]
    kind: str
    nullable: bool
    apart: bool

    @property
    def wrong(self) -> tuple[str, ...]:
        """Return what may not stand there."""
        right = {"{}"} if self.apart else set()
        return tuple(text for text in (*WRONG[self.kind], *(() if self.nullable else ["null"])) if text not in right)


class Format:
    """The format of configuration files, as it is published."""

    def __init__(self) -> None:
        self._root = msgspec.json.decode(schema())
        self._known = self._root["$defs"]
        shown = self._known["Timeouts"]["properties"]["total"], self._known["Bounds"]["properties"]["body"]
        self._notations = {each["anyOf"][0]["pattern"] for each in shown}

    def settings(self) -> Iterator[Setting]:
        """Yield each switch and each number, wherever in a file."""
        yield from self._below(self._root, ())

    def _below(self, at: Any, where: tuple[str | int, ...]) -> Iterator[Setting]:
        options = [self._known[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in at.get("anyOf", [at])]
        types = [each.get("type") for each in options]
        for option in options:
            for name, each in option.get("properties", {}).items():
                yield from self._below(each, (*where, name))
            if option.get("additionalProperties"):
                names = option["propertyNames"].get("enum", ["/x" if where == ("dialects",) else "x"])
                yield from self._below(option["additionalProperties"], (*where, names[0]))
            if "items" in option:
                yield from self._below(option["items"], (*where, 0))
            kind = "notation" if option.get("pattern") in self._notations else option.get("type")
            if kind in WRONG:
                yield Setting(where, kind, nullable="null" in types, apart="object" in types)


Nested = dict[str | int, Any]


Written = dict[tuple[str | int, ...], str]


def documents(written: Written) -> list[Written]:
    """Return what is written in as many documents as it takes: what may be a mapping or a list is one of them in each."""
    found: list[tuple[Written, dict[tuple[str | int, ...], type]]] = []
    for where, text in written.items():
        steps = {where[:depth]: type(step) for depth, step in enumerate(where)}
        fits = (each for each in found if all(each[1].get(place, kind) is kind for place, kind in steps.items()))
        chosen = next(fits, None)
        if chosen is None:
            found.append(chosen := ({}, {}))
        chosen[0][where] = text
        chosen[1].update(steps)
    return [held for held, _ in found]


def nested(written: Mapping[tuple[str | int, ...], str]) -> Nested:
    """Return a document, with what is written at each place as it stands."""
    root: Nested = {}
    for where, text in written.items():
        at = root
        for part in where[:-1]:
            at = at.setdefault(part, {})
        at[where[-1]] = text
    return root


def flow(found: Nested | str) -> str:
    """Return a document's text."""
    if isinstance(found, str):
        return found
    if 0 in found:
        return f"[{flow(found[0])}]"
    return "{" + ", ".join(f'"{name}": {flow(each)}' for name, each in found.items()) + "}"


def test_cfg_03_every_switch_and_every_number_is_one(tmp_path: Path) -> None:
    settings = [*Format().settings()]
    assert len(settings) > 150
    for apart in (False, True):
        asked = [each for each in settings if each.apart is apart]
        assert asked
        for turn in range(max(len(each.wrong) for each in asked)):
            written = {each.where: each.wrong[turn] for each in asked if turn < len(each.wrong)}
            for each in documents(written):
                told = {line.split(": ")[1] for line in refused(flow(nested(each)).encode(), tmp_path)}
                assert {render(where): text for where, text in each.items() if render(where) not in told} == {}


def test_cfg_03_a_field_that_nobody_knows_is_never_passed_over(tmp_path: Path) -> None:
    sections = {each.where[:-1] for each in Format().settings() if isinstance(each.where[-1], str)}
    assert len(sections) > 30
    for each in documents({(*where, "colour"): "1" for where in sections}):
        lines = refused(flow(nested(each)).encode(), tmp_path)
        told = {line.split(": ")[1] for line in lines if "'colour'" in line}
        assert {render(where) for where in each} <= told


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("models: {m: {%s}, m: {%s}}", "models.m"),
        ("models: {m: {%s}, n: {aliases: [m], %s}}", "models.n.aliases[0]"),
        ("models: {m: {aliases: [a], %s}, n: {aliases: [a], %s}}", "models.n.aliases[0]"),
        ("models: {m: {%s}, n: {%s}}\nmodels: {}", "models"),
    ],
)
def test_cfg_03_a_name_is_one_models(text: str, where: str, tmp_path: Path) -> None:
    served = "deployments: [{provider: p, model: up}]"
    lines = refused(f"providers: {{p: {{base_url: https://p.test}}}}\n{text % (served, served)}".encode(), tmp_path)
    assert [line for line in lines if f" {where}: " in line], lines
