"""The laws, over random stories of a fleet."""

import traceback

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.sim.fleet import Fleet

STORIES = 300
STEPS = 50
NAMES = "I1-I6, I8-I10, Q1-Q8"


async def hold_laws() -> bool:
    """Run the stories; return whether every law held, and print what did not."""
    every = settings(
        max_examples=STORIES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        phases=(Phase.generate,),
    )
    try:
        run_state_machine_as_test(Fleet, settings=every)
    except Exception as broken:  # noqa: BLE001 - whatever a law or the code under it says, it is the finding
        where = traceback.extract_tb(broken.__traceback__)[-1]
        print(f"laws: broken, {type(broken).__name__}: {broken} ({where.name})", flush=True)
        return False
    print(f"laws: {NAMES} held over {STORIES} stories of up to {STEPS} steps", flush=True)
    return True
