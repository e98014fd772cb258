"""A small run of `make chaos`: each part of a gateway is killed once under load, and the ledger equals what clients had whole."""

from pathlib import Path

import pytest

from tests.chaos.run import Terms, chaos


@pytest.mark.timeout(240)
async def test_nothing_that_was_answered_is_lost_whatever_is_killed(tmp_path: Path) -> None:
    terms = Terms(requests=1_500, kills=1, seed=1, strict=True, postgres=False)
    lines = await chaos(terms, tmp_path)
    assert not [line for line in lines if line.is_bad]
    counted = {line.what: line.count for line in lines}
    assert counted["clients: whole"] > terms.requests / 3
    assert counted["clients: left"] > 0
    assert counted["clients: lost"] > 0, "the kills have hit requests under way"
