"""The configurations of this folder, imported."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.importing.source import read
from gateway.importing.translation import Known, Translation, translate
from tests.integration.conftest import empty_url, kind, postgres, url, valkey, valkey_server

__all__ = ["empty_url", "kind", "postgres", "url", "valkey", "valkey_server"]

CONFIGS = Path(__file__).parent / "configs"
MONTH_ENDS = "2099-01-01"


@pytest.fixture
def imported() -> Callable[..., Translation]:
    """Return what becomes of one of the configurations, by its name."""

    def translated(name: str, known: Known | None = None) -> Translation:
        return translate(read(CONFIGS / f"{name}.yaml"), known or {}, MONTH_ENDS)

    return translated


@pytest.fixture
def environ() -> Callable[[str], dict[str, str]]:
    """Return a value of its own for each variable that a file refers to."""

    def of(text: str) -> dict[str, str]:
        return {name: f"sk-value-of-{name}" for name in re.findall(r"\$\{(\w+)", text)}

    return of
