"""Case FB-07: a setting of zero is zero or refused at the start; it is never the default."""

import pathlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec.inspect import (
    DictType,
    FloatType,
    IntType,
    Metadata,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from gateway.config.check import check
from gateway.config.parse import Parsed
from gateway.config.structs import Config
from tests.fakes.http_server import Call
from tests.fakes.openai import BUSY, Models, answers, refuses
from tests.field.walking import CHAT, walks
from tests.integration.scene import scene
from tests.running import config
from tests.unit.config.reading import read
from tests.valkey import Valkey

Path = tuple[str | int, ...]

RATES = {"input": 1, "output": 2}
LIMITS = {"rpm": 9, "dynamic": {"window": "1h"}}
GUARDS = {"rpm": 9}
BUDGET = {"usd": 5}

NAMES = {"providers": "p", "models": "A", "plans": "all", "orgs": "acme", "projects": "x", "per_model": "A", "tiers": "flex"}
"""A key of each mapping of the file."""

ZEROS = {"a duration": "0s", "a size": "0B", "a number": 0, "a price": 0}
"""By the beginning of what a notation expects."""


class Setting(msgspec.Struct, frozen=True):
    """A number of the file: where it stands, in the file and in the structs, and its zero."""

    path: Path
    fields: Path
    zero: Any

    def __str__(self) -> str:
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)[1:]


def settings(node: Type, path: Path, fields: Path) -> Iterator[Setting]:  # noqa: C901  one branch for each kind of node
    """Yield every number that a file may have."""
    if isinstance(node, Metadata):
        scalar = (node.extra or {}).get("scalar")
        zero = next((zero for words, zero in ZEROS.items() if scalar is not None and scalar.expects.startswith(words)), None)
        if zero is not None:
            yield Setting(path, fields, zero)
        elif scalar is None:
            yield from settings(node.type, path, fields)
    elif isinstance(node, IntType | FloatType):
        yield Setting(path, fields, 0)
    elif isinstance(node, UnionType):
        for each in node.types:
            yield from settings(each, path, fields)
    elif isinstance(node, StructType):
        for field in node.fields:
            yield from settings(field.type, (*path, field.encode_name), (*fields, field.name))
    elif isinstance(node, DictType):
        name = NAMES.get(str(path[-1]), "x")
        yield from settings(node.value_type, (*path, name), (*fields, name))
    elif isinstance(node, VarTupleType):
        yield from settings(node.item_type, (*path, 0), (*fields, 0))


ALL = tuple(dict.fromkeys(settings(type_info(Config), (), ())))


def sound() -> dict[str, Any]:
    """Return a sound file whose sections are all there, where they need something to be there, and shared by none."""
    rights = {"limits": LIMITS, "over_limit": GUARDS, "flex": GUARDS, "budget": BUDGET, "keepalive": "5s"}
    models = {"A": {"deployments": [{"provider": "p", "model": "up-A", "cost": RATES}], "price": RATES}}
    found = config({"p": "http://127.0.0.1:1"}, models, plan=rights, key=rights)
    found["orgs"]["acme"] |= {"budget": BUDGET, "projects": {"x": {"budget": BUDGET}}}
    tiers: dict[str, Any] = {tier: {} for tier in ("priority", "default", "over-limit", "flex", "no-limit")}
    whole: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({**found, "tiers": tiers, "redis": {"url": "embedded"}}))
    return whole


def with_zero(setting: Setting) -> dict[str, Any]:
    document = sound()
    place: Any = document
    for step, following in pairwise(setting.path):
        made: Any = [{}] if following == 0 else {}
        if following == 0 and isinstance(place, dict) and isinstance(place.get(step), dict):
            place[step] = [place[step]]  # what may be written once or several times
        place = place[step] if isinstance(step, int) else place.setdefault(step, made)
    place[setting.path[-1]] = setting.zero
    return document


def found_in(value: Any, setting: Setting) -> Any:
    for step in setting.fields:
        value = getattr(value, str(step)) if isinstance(value, msgspec.Struct) else value[step]
    return value


def problems(document: dict[str, Any]) -> tuple[Parsed, list[str]]:
    """Return the file as it is read, and where it is refused."""
    parsed = read(msgspec.json.encode(document).decode())
    found = parsed.problems or check(parsed).errors
    return parsed, [problem.where for problem in found]


def test_fb_07_zero_is_zero_or_refused() -> None:
    assert problems(sound())[1] == []
    for setting in ALL:
        parsed, refused = problems(with_zero(setting))
        if refused:
            section = str(setting).rpartition(".")[0]
            assert any(where.startswith(section) or section.startswith(where) for where in refused), f"{setting}: {refused}"
        else:
            assert found_in(parsed.config, setting) == 0, setting


def test_fb_07_all_numbers_are_tried() -> None:
    named = {str(setting) for setting in ALL}
    assert len(named) > 100
    assert {
        "breaker.cooldown_max",
        "fallback.retry_budget",
        "fallback.max_attempts",
        "models.A.timeouts.total",
        "tiers.default.queue",
        "plans.all.limits.rpm",
        "keys[0].limits.per_model.A.tpm",
    } <= named


@pytest.mark.parametrize(("tier", "status"), [("priority", 429), ("default", 200)])
async def test_fb_07_a_wait_of_zero_is_none(tier: str, status: int, valkey: Valkey, tmp_path: pathlib.Path) -> None:
    """A tier that does not wait is told at once of a model that is busy, where one that waits is served after a moment."""
    tiers = {"priority": {"queue": "0s"}, "default": {"queue": "5s"}}
    rights = {"tiers": ["priority", "default"], "explain": True}
    async with scene(Models(), walks(tiers=tiers, breaker={}, plan=rights), valkey, tmp_path) as walk:
        scripts = iter([refuses(429, BUSY, retry_after_ms="60")])

        async def busy_once(call: Call) -> None:
            await next(scripts, answers())(call)

        walk.models.acts["A"] = busy_once
        assert (await CHAT.ask(walk, model="A", service_tier=tier)).status_code == status
