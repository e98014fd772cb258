from pathlib import Path

import pytest

from gateway.config.check import check
from gateway.config.not_yet import NOT_YET
from tests.unit.config.reading import MINIMAL, findings, lines, read

ASKED_FOR = {
    "redis.cells": "redis: {cells: 2}",
}

CASES = {path: MINIMAL + text for path, text in ASKED_FOR.items()}


def test_every_line_of_the_table_has_its_case() -> None:
    assert set(CASES) == {path for feature in NOT_YET for path in feature.paths}


@pytest.mark.parametrize("path", CASES)
def test_a_feature_to_come_is_refused_by_its_field(path: str) -> None:
    (problem,) = lines(check(read(CASES[path])).errors)
    assert problem.endswith(": not in this release")
    assert problem.count(".") >= path.count(".") - path.count(".*")


def test_defaults_are_never_refused() -> None:
    text = """
api: {tls: null, trusted_proxies: []}
ops: {tokens: []}
redis: {url: embedded, cells: 1, on_failure: {rates: local, budgets: closed, queue: refuse}}
database: {url: "sqlite:///x.db", pool: 10}
tiers: {default: {price: 1, queue: 0s}}
plans: {p: {user_hash: false, budget: {usd: 5, tokens: null, alert: 0.8}}}
ledger: {durability: standard, batch: 500}
telemetry: {otlp_endpoint: "", log_bodies: false, exemplars: false, org_labels: 0, propagate: []}
"""
    assert lines(findings(text).errors) == []
    assert lines(findings("").errors) == []


def test_the_readme_marks_every_feature_to_come() -> None:
    rows = (Path(__file__).parents[3] / "config" / "README.md").read_text().splitlines()
    for feature in NOT_YET:
        field = feature.paths[0].rpartition(".")[2]
        assert any(row.startswith(f"| `{field}` |") and "*Not yet" in row for row in rows), field
