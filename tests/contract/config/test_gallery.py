"""The gallery of bad files: each one's first lines are comments that say exactly what is reported, in order."""

from pathlib import Path

import pytest

from gateway.config.check import check
from gateway.config.document import DocumentError
from gateway.config.parse import parse
from gateway.config.references import Sources

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))
CANARY = "canary-that-never-shows"


def _no_file(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


def _reported(raw: bytes) -> list[str]:
    try:
        parsed = parse(raw, Sources({"CANARY": CANARY}, _no_file))
    except DocumentError as error:
        return [error.problem.describe("gateway.yaml")]
    return [problem.describe("gateway.yaml") for problem in check(parsed).errors]


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_is_reported_as_its_first_line_says(path: Path) -> None:
    raw = path.read_bytes()
    reported = _reported(raw)
    expected = [line[2:].decode() for line in raw.splitlines() if line.startswith(b"# ")]
    assert reported == expected
    assert CANARY not in "".join(reported)
    assert "0123456789abcdef" not in "".join(reported)
