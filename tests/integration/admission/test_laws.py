"""The laws of admission and its queue, over random stories of a fleet; the profile says how many. And faults that can be made."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.sim.bugs import BUGS, Bug
from tests.sim.fleet import Fleet

ROOT = Path(__file__).parents[3]

TestFleet = Fleet.TestCase
TestFleet.settings = settings(stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_fault_that_the_simulation_makes_has_its_place(bug: Bug) -> None:
    text = (ROOT / bug.file).read_text("utf-8")
    assert bug.make(text) != text
