import asyncio

import pytest

from gateway.watch import Cut, Sweep


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def waiting(sweep: Sweep, *timers: tuple[Cut, float]) -> Cut | None:
    watch = sweep.open()
    if timers:
        watch.arm(*timers)
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        pass
    finally:
        sweep.close(watch)
    return watch.cut


async def started(sweep: Sweep, *timers: tuple[Cut, float]) -> "asyncio.Task[Cut | None]":
    task = asyncio.get_running_loop().create_task(waiting(sweep, *timers))
    await asyncio.sleep(0)
    return task


async def test_the_earliest_timer_cuts_and_says_which_it_was() -> None:
    clock = Clock()
    sweep = Sweep(clock)
    task = await started(sweep, (Cut.TOTAL, 110.0), (Cut.IDLE, 105.0))
    sweep.look()
    clock.now_s = 104.9
    sweep.look()
    await asyncio.sleep(0)
    assert not task.done()
    clock.now_s = 105.0
    sweep.look()
    assert await task is Cut.IDLE
    assert len(sweep) == 0


async def test_a_request_is_cut_once() -> None:
    clock = Clock()
    sweep = Sweep(clock)
    task = await started(sweep, (Cut.TOTAL, 105.0))
    sweep.cut_all(Cut.DRAIN)
    clock.now_s = 200.0
    sweep.look()
    assert await task is Cut.DRAIN


async def test_a_cut_that_was_answered_can_be_followed_by_another() -> None:
    clock = Clock()
    sweep = Sweep(clock)

    async def twice() -> list[Cut | None]:
        watch = sweep.open()
        cuts: list[Cut | None] = []
        for cut, due_s in ((Cut.FIRST_CONTENT, 101.0), (Cut.DEADLINE, 102.0)):
            watch.arm((cut, due_s))
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cuts.append(watch.cut)
                watch.resume()
        return cuts

    task = asyncio.get_running_loop().create_task(twice())
    for now_s in (101.0, 102.0):
        await asyncio.sleep(0)
        clock.now_s = now_s
        sweep.look()
        await asyncio.sleep(0)
    assert await task == [Cut.FIRST_CONTENT, Cut.DEADLINE]
    assert task.cancelling() == 0


@pytest.mark.parametrize("final", [Cut.DEPARTED, Cut.DRAIN])
async def test_an_end_from_outside_takes_the_place_of_a_timer_that_nobody_has_answered_yet(final: Cut) -> None:
    clock = Clock()
    sweep = Sweep(clock)
    task = await started(sweep, (Cut.FIRST_CONTENT, 100.0))
    sweep.look()
    sweep.cut_all(final)
    clock.now_s = 200.0
    sweep.look()
    assert task.cancelling() == 1
    assert await task is final


async def test_a_departure_does_not_take_the_place_of_a_drain() -> None:
    sweep = Sweep(Clock())
    task = await started(sweep)
    sweep.cut_all(Cut.DRAIN)
    sweep.cut_all(Cut.DEPARTED)
    assert await task is Cut.DRAIN


async def test_it_looks_by_itself_once_started() -> None:
    clock = Clock()
    sweep = Sweep(clock)
    task = await started(sweep, (Cut.IDLE, 100.0))
    sweep.start()
    assert await task is Cut.IDLE
    sweep.stop()
    sweep.stop()


def test_a_watch_belongs_to_a_task() -> None:
    with pytest.raises(RuntimeError):
        Sweep(Clock()).open()
