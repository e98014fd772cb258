from typing import Any

import pytest

from gateway.config.structs.capabilities import Capabilities
from gateway.providers import NATURES
from gateway.providers.anthropic_models import MODELS

ALL: dict[str, Any] = {
    "thinking": "budget",
    "sampling": True,
    "temperature_with_top_p": True,
    "forced_tools": True,
    "prefill": True,
}
CHOOSES = {**ALL, "thinking": "adaptive", "sampling": False, "prefill": False}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-opus-5-5", {**CHOOSES, "thinking": "always", "forced_tools": False}),
        ("claude-sonnet-5-5", {**CHOOSES, "thinking": "always", "forced_tools": False}),
        ("claude-fable-5-1", {**CHOOSES, "thinking": "always", "forced_tools": False}),
        ("claude-haiku-5-5", CHOOSES),
        ("claude-opus-5", CHOOSES),
        ("claude-sonnet-5", CHOOSES),
        ("claude-opus-4-8", CHOOSES),
        ("claude-opus-4-7-20260416", CHOOSES),
        ("claude-opus-4-6", {**ALL, "temperature_with_top_p": False, "prefill": False}),
        ("claude-sonnet-4-6", {**ALL, "prefill": False}),
        ("claude-opus-4-5-20251101", {**ALL, "temperature_with_top_p": False}),
        ("claude-sonnet-4-5-20250929", {**ALL, "temperature_with_top_p": False}),
        ("claude-haiku-4-5", {**ALL, "temperature_with_top_p": False}),
        ("claude-opus-4-1-20250805", {**ALL, "temperature_with_top_p": False}),
        ("claude-sonnet-4-20250514", ALL),
        ("claude-3-5-haiku-20241022", ALL),
        ("claude-3-7-sonnet-latest", ALL),
        ("some-other", ALL),
    ],
)
def test_what_is_known_by_the_name(name: str, expected: dict[str, Any]) -> None:
    assert {**ALL, **NATURES["anthropic"].known_of(name)} == expected


def test_a_model_is_known_by_what_a_file_could_say() -> None:
    assert all(known.keys() <= {*Capabilities.__struct_fields__} for known in MODELS.values())


def test_other_dialects_know_none() -> None:
    assert NATURES["openai"].known_of("claude-opus-5-5") == {}
