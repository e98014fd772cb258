"""Every case from the field has a test that is named after it, or a part of the work that it waits for."""

import re
from collections.abc import Mapping
from pathlib import Path

CASES: Mapping[str, int] = {
    "sse": 24,
    "use": 16,
    "rl": 17,
    "tq": 5,
    "fb": 21,
    "ak": 9,
    "cfg": 4,
    "met": 7,
    "dep": 9,
    "mem": 5,
    "prv": 5,
    "sdk": 3,
}
"""How many there are of each kind; they are numbered from 1."""

WAITING: Mapping[str, str] = {
    "use_16": "answers from a cache",
}
"""What the subject of a case is that is not there yet."""


def test_each_is_tested_or_waits_for_its_subject() -> None:
    known = {f"{kind}_{number:02}" for kind, count in CASES.items() for number in range(1, count + 1)}
    texts = (path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    tested = {found for text in texts for found in re.findall(r"^(?:async )?def test_([a-z]+_\d\d)_", text, re.MULTILINE)}
    assert tested <= known
    assert WAITING.keys() == known - tested
