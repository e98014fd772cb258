"""A file that says something else than it should is told of, and makes nothing that was not meant."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml import safe_load

from gateway.importing.source import Source
from gateway.importing.translation import translate

CONFIGS = [safe_load(path.read_text()) for path in sorted((Path(__file__).parents[2] / "import" / "configs").glob("*.yaml"))]
NONSENSE: tuple[Any, ...] = (
    None,
    True,
    5,
    -1,
    "x",
    "os.environ/",
    "os.environ/a b",
    "${X}",
    [],
    ["a"],
    [5],
    [{}],
    {},
    {"a": 1},
    {"a": {"b": []}},
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a document: what holds it, and by which name."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, held in list(pairs):
        yield value, name
        yield from places(held)


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: copied(held) for name, held in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


SECTIONS = ("model_list", "router_settings", "litellm_settings", "general_settings", "environment_variables", "credential_list")


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
def test_a_section_that_is_none_is_told_of(section: str, nonsense: Any) -> None:
    document = {"model_list": [{"model_name": "m", "litellm_params": {"model": "openai/m"}}], section: nonsense}
    translation = translate(Source(document, ()), {}, "2099-01-01")
    assert set(translation.document["models"]) <= {"m"}


FIELDS = ("tags", "mode", "access_groups", "base_model", "team_id", "headers", "api_key", "rpm", "order", "timeout", "max_tokens")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
def test_a_field_that_is_none_is_told_of(field: str, nonsense: Any) -> None:
    held = {field: nonsense}
    entry = {"model_name": "m", "litellm_params": {"model": "openai/m", **held}, "model_info": held}
    aliases = {"model_group_alias": {"a": nonsense}, "fallbacks": [{"m": nonsense}], "allowed_fails": nonsense}
    translation = translate(Source({"model_list": [entry], "router_settings": aliases}, ()), {}, "2099-01-01")
    assert safe_load(translation.text())["models"] == translation.document["models"]


@given(st.data())
def test_nonsense_anywhere_is_told(data: st.DataObject) -> None:
    document = copied(data.draw(st.sampled_from(CONFIGS)))
    for _ in range(data.draw(st.integers(1, 3))):
        found = [*places(document)]
        if found:
            holder, name = found[data.draw(st.integers(0, len(found) - 1))]
            holder[name] = copied(data.draw(st.sampled_from(NONSENSE)))
    translation = translate(Source(document, ()), {}, "2099-01-01")
    assert set(safe_load(translation.text())) == set(translation.document)
    assert all(finding.note for finding in translation.findings.all() if finding.kind != "exact")
