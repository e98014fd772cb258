"""The laws of admission and its queue, over random stories of a fleet; the profile says how many."""

from hypothesis import HealthCheck, settings

from tests.sim.fleet import Fleet

TestFleet = Fleet.TestCase
TestFleet.settings = settings(stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))
