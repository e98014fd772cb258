import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count, groupby
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.faults import EndClass, Fault
from gateway.policy.catalogue import Guards, Model, Tier
from gateway.policy.figures import Figures, Stay
from gateway.policy.orders import EXPLORING
from gateway.policy.routing import Plan, Planner
from gateway.policy.strategy import Strategy
from gateway.policy.tiers import wish
from gateway.wire.request import Endpoint
from tests.catalogues import catalogue, deployment, key, model, provider, request

USUAL_TOKENS = 100
MANY = 100_000


class Clock:
    """The time of a test."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


def served(strategy: Strategy, *weights: float) -> Model:
    at = [deployment("m", provider(str(place)), weight=weight) for place, weight in enumerate(weights)]
    return model("m", *at, strategy=strategy)


def plan_of(*models: Model) -> Plan:
    """The plan of a request for these models, by weight alone."""
    asked, by = request(*(each.name for each in models)), key()
    return Planner(catalogue(*models)).plan(by, asked, wish("default", by, Endpoint.CHAT), dice=0)


def firsts(figures: Figures, plan: Plan, seeds: int) -> Counter[str]:
    """Return how often each deployment comes first."""
    dice = (Random(seed).getrandbits(62) for seed in range(seeds))
    return Counter(figures.ordered(plan, each, stream=False).candidates[0].target.deployment.id for each in dice)


class Fleet:
    """A worker and its deployments over time: each takes as long as it takes, whoever else is there."""

    def __init__(self, strategy: Strategy, takes: Sequence[Callable[[], float]], seed: int, *, stream: bool = True) -> None:
        self.clock = Clock()
        self.figures = Figures(self.clock)
        self.takes = list(takes)
        self.random = Random(seed)
        self.stream = stream
        self.plan = plan_of(served(strategy, *[1.0] * len(takes)))
        self._ends: list[tuple[float, int, Stay, int]] = []
        self._numbers = count()

    def arrive(self, pause_s: float) -> int:
        """Let a request come so long after the one before. Return where it went."""
        self.until(self.clock.s + pause_s)
        first = self.figures.ordered(self.plan, self.random.getrandbits(62), stream=self.stream).candidates[0].target.deployment
        stay = self.figures.expect(first.id, stream=self.stream)
        stay.ask(first.id)
        place, tokens = (
            int(first.provider.name),
            USUAL_TOKENS if self.stream else self.random.randrange(1, 2 * USUAL_TOKENS),
        )
        end_s = self.clock.s + self.takes[place]() * tokens / USUAL_TOKENS
        heapq.heappush(self._ends, (end_s, next(self._numbers), stay, tokens))
        return place

    def until(self, end_s: float) -> None:
        """Let time pass; answers come as they are due."""
        while self._ends and self._ends[0][0] <= end_s:
            self.clock.s, _, stay, tokens = heapq.heappop(self._ends)
            stay.answered(tokens)
            stay.leave()
        self.clock.s = end_s

    def lasts(self, seconds: float, pause_s: float) -> Counter[int]:
        """Let requests come for so long. Return how many went where."""
        return self.firsts(round(seconds / pause_s), pause_s)

    def firsts(self, requests: int, pause_s: float) -> Counter[int]:
        """Let so many requests come. Return how many went where."""
        return Counter(self.arrive(pause_s) for _ in range(requests))


SEEDS = pytest.mark.parametrize("seed", range(4))
PAUSES = pytest.mark.parametrize("pause_s", [0.005, 0.1, 2.0])
"""Between two requests: 200 a second, of which a thousand are under way at what is slow; 10; one in two seconds."""


def about(median_s: float, random: Random) -> Callable[[], float]:
    """Answers as they vary: one in six takes 1.35 times as long or longer."""
    return lambda: median_s * random.lognormvariate(0, 0.3)


@SEEDS
@PAUSES
@pytest.mark.parametrize("stream", [True, False])
def test_one_that_is_ten_times_slower_gets_a_few_percent_and_is_found_out_when_it_is_fast(
    seed: int, pause_s: float, stream: bool
) -> None:
    random = Random(seed)
    fleet = Fleet(Strategy.LATENCY, [about(5.0, random), about(0.5, random), about(5.0, random)], seed, stream=stream)
    fleet.lasts(30, pause_s)
    warm = fleet.firsts(2_000, pause_s)
    assert warm[0] + warm[2] <= 80, "4 %"
    fleet.takes[2] = about(0.1, random)
    asked = next(number for number in range(MANY) if fleet.arrive(pause_s) == 2)
    fleet.lasts(20, pause_s)
    assert asked < 10 * EXPLORING + 10 / pause_s, "behind the last of its slow answers, which is waited for"
    assert fleet.firsts(500, pause_s)[2] > 400


@SEEDS
@PAUSES
def test_one_that_becomes_slow_is_left(seed: int, pause_s: float) -> None:
    random = Random(seed)
    fleet = Fleet(Strategy.LATENCY, [about(0.5, random), about(1.5, random)], seed)
    fleet.lasts(30, pause_s)
    assert fleet.firsts(500, pause_s)[0] > 450
    fleet.takes[0] = about(15.0, random)
    fleet.lasts(60, pause_s)
    assert fleet.firsts(500, pause_s)[0] < 50


@SEEDS
def test_one_that_never_answers_draws_no_others_after_it(seed: int) -> None:
    fleet = Fleet(Strategy.LATENCY, [lambda: 1e9, lambda: 0.5], seed)
    assert fleet.lasts(1, 0.05)[0] < 15, "until one has answered nobody knows better"
    assert fleet.firsts(2_000, 0.05)[0] == 0


@SEEDS
@pytest.mark.parametrize("width", [2, 5])
def test_the_least_busy_share_evenly_and_whoever_is_slow_gets_the_less(seed: int, width: int) -> None:
    fleet = Fleet(Strategy.LEAST_BUSY, [lambda: 1.0] * width, seed)
    at_once = fleet.firsts(10 * width + 3, 0.0)
    assert max(at_once.values()) - min(at_once[place] for place in range(width)) <= 1
    fleet.takes[0] = lambda: 10.0
    fleet.until(fleet.clock.s + 20)
    found = fleet.firsts(1_000, 0.01)
    assert found[0] < found[1] / 2


def test_room_counts_and_where_it_is_the_same_weight_does() -> None:
    at = [deployment("m", provider("0"), max_concurrency=30), deployment("m", provider("1"), max_concurrency=10, weight=9)]
    plan, figures, random = plan_of(model("m", *at, strategy=Strategy.LEAST_BUSY)), Figures(Clock()), Random(1)
    for _ in range(40):
        first = figures.ordered(plan, random.getrandbits(62), stream=False).candidates[0].target.deployment.id
        figures.expect(first, stream=False)
    assert (figures.under_way("m/0"), figures.under_way("m/1")) == (30, 10), "both are full at once"
    assert len(figures) == 40


def test_each_model_has_its_own_strategy() -> None:
    figures, strategies = Figures(Clock()), (Strategy.LEAST_BUSY, Strategy.LATENCY, Strategy.WEIGHTED)
    models = [
        model(name, *(deployment(name, provider(each)) for each in "01"), strategy=strategy)
        for name, strategy in zip("ABC", strategies, strict=True)
    ]
    plan = plan_of(*models)
    figures.expect("A/0", stream=False)
    figures.expect("B/1", stream=False).ask("B/1")
    figures.expect("C/0", stream=False)
    for seed in range(50):
        ordered = figures.ordered(plan, Random(seed).getrandbits(62), stream=False)
        deployments = [each.target.deployment.id for each in ordered.candidates]
        assert deployments[:4] == ["A/1", "A/0", "B/0", "B/1"]
        assert deployments[4:] == [each.target.deployment.id for each in plan.candidates[4:]], "by weight, as it was planned"


@pytest.mark.parametrize("strategy", [Strategy.LEAST_BUSY, Strategy.LATENCY])
def test_the_credentials_of_a_deployment_stay_together_as_chance_had_them(strategy: Strategy) -> None:
    at = [deployment("m", provider(name, credentials=3)) for name in "01"]
    of, clock, by = model("m", *at, strategy=strategy), Clock(), key()
    figures = Figures(clock)
    for name, seconds in (("m/0", 9.0), ("m/1", 1.0)):
        stay = figures.expect(name, stream=False)
        stay.ask(name)
        clock.s += seconds
        stay.answered(1)
    for seed in range(50):
        dice = Random(seed).getrandbits(62)
        plan = Planner(catalogue(of)).plan(by, request("m"), wish("default", by, Endpoint.CHAT), dice=dice)
        for each in (EXPLORING, EXPLORING + 1):
            accounts = [candidate.account for candidate in figures.ordered(plan, each, stream=False).candidates]
            names = [name for name, _ in groupby(account[0] for account in accounts)]
            assert len(names) == 2
            assert accounts == [known.account for name in names for known in plan.candidates if known.account[0] == name]


def test_tiers_keep_their_turn() -> None:
    figures = Figures(Clock())
    of, by = served(Strategy.LEAST_BUSY, 1.0, 1.0), key(over_limit=Guards())
    plan = Planner(catalogue(of)).plan(by, request("m"), wish("auto", by, Endpoint.CHAT), dice=0)
    figures.expect("m/0", stream=False)
    found = [(each.target.tier, each.target.deployment.id) for each in figures.ordered(plan, 5, stream=False).candidates]
    assert found == [(tier, at) for tier in (Tier.DEFAULT, Tier.OVER_LIMIT) for at in ("m/1", "m/0")]


def test_streams_and_whole_answers_are_not_compared() -> None:
    clock = Clock()
    figures = Figures(clock)
    for place, seconds in enumerate((0.1, 9.0)):
        stay = figures.expect(f"m/{place}", stream=True)
        stay.ask(f"m/{place}")
        clock.s += seconds
        stay.answered(1)
    assert figures.look("m/1", stream=False).pace is None
    seen = figures.look("m/1", stream=True).pace
    assert seen is not None
    assert seen.seconds == pytest.approx(9.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def asked(clock: Clock, seconds: float = 2.0) -> tuple[Figures, Stay]:
    """A stream that was asked for so long ago."""
    figures = Figures(clock)
    stay = figures.expect("a", stream=True)
    stay.ask("a")
    clock.s += seconds
    return figures, stay


def seconds_of(figures: Figures, at: str = "a") -> float | None:
    pace = figures.look(at, stream=True).pace
    return None if pace is None else pace.seconds


def test_time_counts_from_where_it_is_asked(clock: Clock) -> None:
    figures = Figures(clock)
    stay = figures.expect("a", stream=True)
    clock.s += 60
    stay.ask("b")
    assert (figures.under_way("a"), figures.under_way("b")) == (0, 1)
    assert seconds_of(figures) is None, "it waited for its turn, and not for the deployment"
    clock.s += 2
    stay.answered(1)
    assert seconds_of(figures, "b") == pytest.approx(2.0)
    assert figures.under_way("b") == 1, "a stream has only begun"
    clock.s += 60
    stay.leave()
    assert seconds_of(figures, "b") == pytest.approx(2.0)


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_of_the_deployments_own_tells_and_no_other(clock: Clock, fault: Fault) -> None:
    figures, stay = asked(clock)
    stay.failed(fault)
    stay.failed(fault)
    stay.leave()
    assert figures.look("a", stream=True).awaited == 0
    pace = figures.look("a", stream=True).pace
    assert (pace is None) == (fault.end_class is not EndClass.UNAVAILABLE)
    assert pace is None or pace.answers == 1


def test_a_stream_that_breaks_off_counts_as_a_fault_of_its_beginning(clock: Clock) -> None:
    figures, stay = asked(clock)
    stay.answered(1)
    clock.s += 600
    stay.failed(Fault.RESET)
    found = seconds_of(figures)
    assert found is not None
    assert 2.0 < found < 20.0, "ten minutes of an answer are no figure of its first content"


def test_a_request_that_leaves_tells_how_long_it_waited_at_least(clock: Clock) -> None:
    figures, stay = asked(clock)
    stay.answered(1)
    stay.leave()
    slow = figures.expect("a", stream=True)
    slow.ask("a")
    clock.s += 40
    slow.leave()
    found = seconds_of(figures)
    assert found is not None
    assert found > 10


class Lives(RuleBasedStateMachine):
    """Requests that do what requests may do, in any order: what is counted is what is there."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.figures = Figures(self.clock)
        self.at: dict[Stay, str] = {}
        self.awaited: dict[Stay, str] = {}
        self.over: list[Stay] = []

    @rule(place=st.sampled_from("abc"))
    def comes(self, place: str) -> None:
        stay = self.figures.expect(place, stream=True)
        self.at[stay] = self.awaited[stay] = place

    @precondition(lambda self: self.at or self.over)
    @rule(place=st.sampled_from("abc"), which=st.integers(0, 99))
    def is_sent(self, place: str, which: int) -> None:
        known = [*self.at, *self.over]
        stay = known[which % len(known)]
        stay.ask(place)
        self.at[stay] = self.awaited[stay] = place
        self.over = [each for each in self.over if each is not stay]

    @precondition(lambda self: self.at)
    @rule(which=st.integers(0, 99), seconds=st.floats(0, 60), end=st.sampled_from(("answered", Fault.SERVER, Fault.BUSY)))
    def hears(self, which: int, seconds: float, end: str) -> None:
        stay = [*self.at][which % len(self.at)]
        self.clock.s += seconds
        before = stay in self.awaited
        if isinstance(end, Fault):
            stay.failed(end)
        else:
            stay.answered(3)
        if before and self.figures.look(self.at[stay], stream=True).awaited < Counter(self.awaited.values())[self.at[stay]]:
            del self.awaited[stay]

    @precondition(lambda self: self.at or self.over)
    @rule(which=st.integers(0, 99))
    def leaves(self, which: int) -> None:
        known = [*self.at, *self.over]
        stay = known[which % len(known)]
        stay.leave()
        if stay in self.at:
            del self.at[stay]
            self.awaited.pop(stay, None)
            self.over.append(stay)

    @invariant()
    def what_is_counted_is_there(self) -> None:
        under_way, awaited = Counter(self.at.values()), Counter(self.awaited.values())
        for place in "abc":
            assert self.figures.under_way(place) == under_way[place]
            assert self.figures.look(place, stream=True).awaited == awaited[place]
            pace = self.figures.look(place, stream=True).pace
            assert pace is None or pace.units > 0


TestLives = Lives.TestCase
