"""The rules of the house that no linter knows: size, purity, module-level state, and words that mean nothing."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "gateway"
FILES = sorted(HOUSE.rglob("*.py"))
UNIT = sorted((ROOT / "tests" / "unit").rglob("*.py"))
PURE = [path for path in FILES if path.relative_to(HOUSE).parts[0] in ("wire", "policy", "providers", "errors.py", "faults.py")]

MOST_LINES = 300
MOST_FUNCTION_LINES = 60

VAGUE = ("manager", "helper", "util", "service", "processor", "common", "misc")
"""Words in a file's or class's name that would take anything in."""


def name(path: Path) -> str:
    return str(path.relative_to(HOUSE))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_fits_in_the_head(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    long = [f.name for f in functions(path) if (f.end_lineno or 0) - f.lineno >= MOST_FUNCTION_LINES]
    assert not long


@pytest.mark.parametrize("path", PURE, ids=name)
def test_a_decision_waits_for_nothing(path: Path) -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert not [node.lineno for node in ast.walk(tree(path)) if isinstance(node, waiting)]


OUTSIDE = {"asyncio", "socket", "subprocess", "threading", "time", "litestar", "uvicorn", "httpx", "redis", "sqlalchemy"}
"""What a unit test has no business with."""


@pytest.mark.parametrize("path", UNIT, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_unit_test_stays_inside(path: Path) -> None:
    nodes = [*ast.walk(tree(path))]
    assert not [node.lineno for node in nodes if isinstance(node, ast.AsyncFunctionDef)]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not {module.partition(".")[0] for module in imported} & OUTSIDE


@pytest.mark.parametrize("path", PURE, ids=name)
def test_a_pure_rooms_page_says_so(path: Path) -> None:
    page = ast.get_docstring(tree(path))
    assert path.name == "__init__.py" or "Pure" in (page or "")


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_module_keeps_no_state(path: Path) -> None:
    module = tree(path)
    assert not [node.lineno for node in ast.walk(module) if isinstance(node, ast.Global)]
    mutable = (ast.ListComp, ast.SetComp, ast.List, ast.Set)
    kept = [
        node.lineno for node in module.body if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, mutable)
    ]
    exported = [node.lineno for node in module.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    assert [line for line in kept if line not in exported] in ([], headers_of(module))


def headers_of(module: ast.Module) -> list[int]:
    """Lists of header pairs, which are joined and never changed, are as good as tuples."""
    return [node.lineno for node in module.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "Headers"]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_name_says_what_it_is(path: Path) -> None:
    names = [path.stem, *(node.name.lower() for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef))]
    assert not [found for found in names for word in VAGUE if word in found]


def test_decisions_load_without_the_world() -> None:
    loaded = "import sys, gateway.policy.routing, gateway.providers; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert not {"asyncio", "httpx", "litestar", "redis", "sqlalchemy", "uvicorn"} & set(modules)


def test_the_locks_hold_no_address() -> None:
    for lock in ROOT.glob("*.lock"):
        assert "://" not in lock.read_text()


def test_the_readme_names_every_room() -> None:
    readme = (ROOT / "README.md").read_text()
    rooms = {path.relative_to(HOUSE).parts[0] for path in FILES} - {"__init__.py"}
    missing = [room for room in sorted(rooms) if (room if room.endswith(".py") else f"{room}/") not in readme]
    assert not missing
