"""Configurations written after the documentation of LiteLLM's proxy: imported, told field by field, and sound."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from yaml import safe_load

from gateway.cli import tiergate
from gateway.importing.translation import Translation

CONFIGS = sorted((Path(__file__).parent / "configs").glob("*.yaml"))

Imported = Callable[..., Translation]
Environ = Callable[[str], dict[str, str]]


def paths(value: Any, where: str = "") -> set[str]:
    """Return the place of each value that a file has, those of lists of words as one."""
    if isinstance(value, dict):
        return {path for name, held in value.items() for path in paths(held, f"{where}.{name}" if where else str(name))}
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return {path for place, held in enumerate(value) for path in paths(held, f"{where}[{place}]")}
    return {where}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_what_is_imported_is_sound(path: Path, tmp_path: Path, environ: Environ) -> None:
    out = tmp_path / "gateway.yaml"
    result = CliRunner().invoke(tiergate, ["import", "litellm", str(path), "--out", str(out)], obj={})
    assert (result.exit_code, result.stdout) == (0, "")
    checked = CliRunner().invoke(tiergate, ["check", str(out)], obj=environ(out.read_text()))
    assert checked.exit_code == 0, checked.stderr
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_each_field_is_told_of(path: Path, imported: Imported) -> None:
    told = {finding.where for finding in imported(path.stem).findings.all()}
    for met in paths(safe_load(path.read_text())):
        assert any(
            met == where or met.startswith((f"{where}.", f"{where}[")) or where.startswith((f"{met}.", f"{met}["))
            for where in told
        ), met


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_what_is_left_out_has_its_reason(path: Path, imported: Imported) -> None:
    assert all(bool(finding.note) == (finding.kind != "exact") for finding in imported(path.stem).findings.all())
