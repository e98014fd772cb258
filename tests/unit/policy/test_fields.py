"""Values that no shape tells: names in `models`, words for tiers, how many prompts a key may ask at once."""

from typing import Any

import msgspec
import pytest

from gateway.errors import Unprocessable
from gateway.policy.catalogue import Key
from gateway.policy.fields import bad_values
from gateway.wire.request import Endpoint, parse
from tests.catalogues import key

NAMES = {"a", "qwen:7b"}


def found(endpoint: Endpoint = Endpoint.COMPLETIONS, by: Key | None = None, **fields: Any) -> list[tuple[str | int, ...]]:
    """Return where the bad values of a request are."""
    asked = "input" if endpoint is Endpoint.EMBEDDINGS else "prompt"
    body = msgspec.json.encode({"model": "a", asked: "x", **fields})
    try:
        parse(endpoint, body, judge=bad_values(by or key(), NAMES))
    except Unprocessable as refused:
        return [error.loc for error in refused.fields]
    return []


def test_only_plain_or_registered_names_may_be_in_models() -> None:
    assert found(models=["a", "qwen:7b", "unknown"]) == []
    bad = ["a:rev1", "a", "deploy_id:x", "http://e.example/m"]
    assert found(models=bad) == [("body", "models", place) for place in (0, 2, 3)]


@pytest.mark.parametrize(
    ("word", "bad"),
    [
        ("auto", False),
        ("default", False),
        ("standard_only", False),
        ("over-limit", False),
        ("Auto", True),
        ("", True),
        ("gold", True),
    ],
)
def test_a_tier_is_one_that_somebody_has(word: str, bad: bool) -> None:
    assert found(service_tier=word) == ([("body", "service_tier")] if bad else [])


def test_prompts_are_bounded_and_inputs_are_not() -> None:
    few = key(max_prompts=2)
    assert found(by=few, prompt=["a", "b"]) == []
    assert found(by=few, prompt=["a", "b", "c"]) == [("body", "prompt")]
    assert found(by=few, prompt=[[1], [2], [3]]) == [("body", "prompt")]
    assert found(Endpoint.EMBEDDINGS, few, input=["a", "b", "c"]) == []


def test_all_of_them_are_told_at_once() -> None:
    told = found(by=key(max_prompts=1), prompt=["a", "b"], service_tier="gold", models=["a:1"], n=0, temperature=9)
    assert sorted(told, key=str) == [
        ("body", "models", 0),
        *(("body", name) for name in ("n", "prompt", "service_tier", "temperature")),
    ]
