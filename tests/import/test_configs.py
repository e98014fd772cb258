"""Configurations written after the documentation of LiteLLM's proxy: imported, told field by field, and sound."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
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


def imports(*options: str) -> Result:
    return CliRunner().invoke(tiergate, ["import", "litellm", *options], obj={})


def test_strictly_only_what_is_exact_is_good(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "model_list: [{model_name: m, litellm_params: {model: openai/m, api_key: k}}]\n"
        "general_settings: {master_key: os.environ/MASTER}\n"
    )
    assert imports(str(path), "--strict").exit_code == 0
    path.write_text(path.read_text() + "litellm_settings: {cache: true}\n")
    strictly = imports(str(path), "--strict")
    assert (strictly.exit_code, imports(str(path)).exit_code) == (1, 0)
    assert "litellm_settings.cache\n      answers are not cached here\n" in strictly.stderr
    assert strictly.stderr.endswith("4 exact, 0 approximate, 1 ignored\n")


def test_what_became_of_each_field_is_for_programs_too(tmp_path: Path) -> None:
    told = msgspec.json.decode(imports(str(CONFIGS[0]), "--json").stdout)
    assert {finding["kind"] for finding in told["findings"]} <= {"exact", "approximate", "ignored"}
    assert sum(told[kind] for kind in ("exact", "approximate", "ignored")) == len(told["findings"])
    assert safe_load(told["config"])["models"]
    assert "config" not in msgspec.json.decode(imports(str(CONFIGS[0]), "--json", "--out", str(tmp_path / "x.yaml")).stdout)


@pytest.mark.parametrize(
    "text", ["- a list", "a: [", "include: nothing", "include: [nowhere.yaml]", "a: !!python/object:x.Y {}", None]
)
def test_what_cannot_be_read_is_said_so(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    result = imports(str(path))
    assert (result.exit_code, result.stdout) == (78, "")
    assert str(tmp_path) in result.stderr
