"""What the store learns with the ends of requests, as the specification learns it, and what it answers."""

from random import Random

from msgspec.structs import replace
from redis.asyncio import Redis

from gateway.admission.client import Admission
from gateway.policy.admission import Lesson
from gateway.policy.answers import Learned
from gateway.policy.learning import BOUNDS, KEPT_DAYS, Learning
from gateway.policy.limits import DAY_MS
from tests.integration.admission.rows import Clock, acquire, row, settle
from tests.integration.admission.state import PREFIX


async def learn(admission: Admission, lesson: Lesson, lease_id: str) -> Learned | None:
    await admission.acquire(acquire(lease_id, row()))
    return (await admission.settle(replace(settle(lease_id), lesson=lesson))).learned


async def test_counts_are_halved_as_in_the_specification(admission: Admission, clock: Clock) -> None:
    random, specified = Random(1), Learning()
    seen = set()
    for turn in range(600):
        lesson = Lesson(
            "acme", "m", random.randint(150_000, 1_000_000), random.choice((1, 128, 129, 700, 8_679, 8_680, 2**31 - 1))
        )
        found = await learn(admission, lesson, f"lease-{turn}")
        assert found == specified.learn(lesson, clock.now_ms)
        seen.add(found.samples)
    assert max(seen) == 255


async def test_lengths_fall_into_the_buckets_of_the_specification(admission: Admission, clock: Clock) -> None:
    edges = [1, *(length for bound in BOUNDS for length in (bound, bound + 1))]
    for length in edges:
        lesson = Lesson(f"org-{length}", "m", output_tokens=length)
        assert await learn(admission, lesson, f"lease-{length}") == Learning().learn(lesson, clock.now_ms)


async def test_an_end_teaches_once(admission: Admission) -> None:
    lesson = Lesson("acme", "m", 500_000, 300)
    assert await learn(admission, lesson, "mine") == Learned(343_749, 325, 1)
    again = await admission.settle(replace(settle("mine"), lesson=lesson))
    assert again.learned is None
    assert await learn(admission, Lesson("acme", "m", output_tokens=1), "next") == Learned(343_749, 325, 2)


async def test_what_one_org_was_answered_tells_nothing_of_another(admission: Admission) -> None:
    await learn(admission, Lesson("acme", "m", 500_000, 8_000), "acme's")
    assert await learn(admission, Lesson("other", "m", output_tokens=100), "other's") == Learned(343_749, 128, 1)
    assert await learn(admission, Lesson("acme", "n", output_tokens=200), "other model") == Learned(333_333, 204, 1)


async def test_a_week_without_use_is_forgotten(admission: Admission, clock: Clock, redis: Redis) -> None:
    lesson = Lesson("acme", "m", 500_000, 8_000)
    await learn(admission, lesson, "first")
    clock.now_ms += KEPT_DAYS * DAY_MS
    assert await learn(admission, lesson, "second") == Learned(353_514, 8_679, 2)
    clock.now_ms += (KEPT_DAYS + 1) * DAY_MS
    assert await learn(admission, lesson, "third") == Learned(343_749, 8_679, 1)
    assert KEPT_DAYS * DAY_MS < await redis.pttl(f"{PREFIX}learned:m") <= (KEPT_DAYS + 2) * DAY_MS
