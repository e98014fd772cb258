"""The plan of a request and the walk along it: which candidates, in which order, and when to move on or give up.

The walk is the wire contract's (section 3): inside a model its providers stand in for each other; from model to model only ends
of a class in `fallback.on` lead. Pure.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from gateway.errors import ContextLengthExceeded, InvalidValue, UnsupportedParameter, UnsupportedPrompt
from gateway.faults import EndClass
from gateway.policy.abilities import able, differing
from gateway.policy.access import find_model, may_use, serving_endpoint
from gateway.policy.admission import Row
from gateway.policy.capabilities import check_key_bounds, check_model, endpoints_for, refuse_chat, takes, unsaid_in_chat
from gateway.policy.catalogue import Catalogue, Key, Model, Tier, TierTerms
from gateway.policy.charging import Target, budgets_of, target_charges, tenant_of, upstreams_of
from gateway.policy.ends import RATE_LIMIT, REASONS, End
from gateway.policy.estimates import estimate, most_spent, smallest_bucket_tokens
from gateway.policy.experience import Experience
from gateway.policy.natures import asks_much
from gateway.policy.patience import NO_PATIENCE, PRECEDENCE, Patience, patience_with, pool_of
from gateway.policy.pricing import near, timetable
from gateway.policy.remembered import Remembered
from gateway.policy.tiers import Echo, Wish, echoes, multiplier, served
from gateway.policy.ways import Way, weighted_order
from gateway.wire.request import Endpoint, InferenceRequest


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """One thing to try. `stage` is its model's place in the chain; `shown` the name that the client knows the model by."""

    stage: int
    shown: str
    way: Way
    row: Row

    @property
    def target(self) -> Target:
        """Return where the request would go."""
        return self.way.target

    @property
    def account(self) -> tuple[str, str]:
        """Return the deployment and the credential that it takes there."""
        return self.row.upstream.deployment, self.row.upstream.credential


class Plan(msgspec.Struct, frozen=True, gc=False):
    """All candidates in the order of the walk, and what leads from one stage to the next."""

    candidates: tuple[Candidate, ...]
    leads_on: frozenset[str]
    max_attempts: int
    patience: Patience = NO_PATIENCE
    """How the request may wait for its last model."""
    own_patience: Patience = NO_PATIENCE
    """How it may wait for the model that it names before the configuration's fallbacks are asked, where there are any."""


Chain = tuple[tuple[str, Model], ...]
"""The models of one request in their order, each with the name that the client knows it by."""


class Planner:
    """Plans requests against one snapshot of the catalogue; remembers the chains and the ways of keys that it has met.

    What they are held to cost goes by `experience`; without any, as if nothing had been learned.
    """

    def __init__(self, catalogue: Catalogue, experience: Experience | None = None) -> None:
        self._catalogue = catalogue
        self._experience = experience or Experience()
        self._differing = frozenset(name for name, model in catalogue.models.items() if differing(model))
        self._chains = Remembered[tuple[str, int, str], Chain]()
        self._ways = Remembered[tuple[str, int, str | None, str, tuple[Endpoint, ...], Wish], tuple[tuple[Way, ...], ...]]()

    def plan(self, key: Key, request: InferenceRequest, wanted: Wish, dice: int, now_unix_ms: int = 0) -> Plan:
        """Return the plan; `dice` (62 random bits) spreads requests over equal deployments, `now_unix_ms` tells the prices.

        Raises `ModelNotFound`, `Unprocessable` and what `REFUSALS` are: every model that the client names is judged before any is
        tried. One that only the configuration names is left out instead.
        """
        check_key_bounds(key, request)
        endpoints = endpoints_for(request)
        candidates: list[Candidate] = []
        patiences: list[Patience] = []
        for stage, (shown, model) in enumerate(self._chain(key, request)):
            try:
                tiers = self._able_ways(key, model, request, endpoints, wanted)
            except REFUSALS:
                if stage == 0 or request.models is not None:
                    raise
                continue
            patiences.append(NO_PATIENCE if request.fail_fast else tiers[0][0].patience)
            learned = self._experience.of(key.org, model.name)
            for ways in tiers:
                estimated, smallest = None, None
                for way in weighted_order(ways, dice):
                    if estimated is None or way.smallest_bucket_tokens != smallest:
                        smallest = way.smallest_bucket_tokens
                        estimated = estimate(request, model, smallest, learned)
                    tier = way.target.tier
                    row = Row(way.upstream, model.name, tier, way.charges, estimated, way.pool, PRECEDENCE[tier])
                    candidates.append(Candidate(stage, shown, way, row))
        fallback = self._catalogue.fallback
        own = patiences[0] if request.models is None and len(patiences) > 1 else NO_PATIENCE
        return Plan(reserved(candidates, request, now_unix_ms), fallback.on, fallback.max_attempts, patiences[-1], own)

    def _chain(self, key: Key, request: InferenceRequest) -> Chain:
        if request.models is None:
            found = (key.id, key.edition, request.model or "")
            known = self._chains.get(found)
            if known is None:
                known = self._chains[found] = self._servers_chain(key, found[2])
            return known
        chain: dict[str, tuple[str, Model]] = {}
        for name in request.models:
            model = find_model(name, key, self._catalogue.names)
            chain.setdefault(model.name, (name, model))
        return tuple(chain.values())

    def _servers_chain(self, key: Key, name: str) -> Chain:
        first = find_model(name, key, self._catalogue.names)
        follow = (self._catalogue.models[other] for other in first.fallbacks if other != first.name)
        allowed = [(model.name, model) for model in follow if may_use(key, model)]
        return ((name, first), *allowed[: self._catalogue.fallback.max_models - 1])

    def _able_ways(
        self, key: Key, model: Model, request: InferenceRequest, endpoints: tuple[Endpoint, ...], wanted: Wish
    ) -> tuple[tuple[Way, ...], ...]:
        """Return the ways to those of a model's deployments that can honour a request. Raises what `REFUSALS` are."""
        check_model(model, request)
        tiers = self._ways_to(key, model, endpoints, wanted)
        if not tiers:
            raise _not_served(key, model, request)
        return able(tiers, request) if model.name in self._differing or asks_much(request) else tiers

    def _ways_to(self, key: Key, model: Model, endpoints: tuple[Endpoint, ...], wanted: Wish) -> tuple[tuple[Way, ...], ...]:
        """Return the ways to a model, one group for each tier in the order to try; none where it serves none of the endpoints."""
        found = (key.id, key.edition, key.project, model.name, endpoints, wanted)
        known = self._ways.get(found)
        if known is None:
            through = [(d, serving_endpoint(d, key, endpoints)) for d in model.deployments if takes(d, endpoints[0])]
            serving = [(d, endpoint != endpoints[0]) for d, endpoint in through if endpoint is not None]
            tiers = served(wanted, model, key) if serving else ()
            overflows = Tier.OVER_LIMIT in tiers
            known = tuple(
                tuple(
                    replace(way, detour=detour)
                    for d, detour in serving
                    for way in self._ways_with(key, Target(model, d, tier), overflows=overflows)
                )
                for tier in tiers
            )
            self._ways[found] = known
        return known

    def _ways_with(self, key: Key, target: Target, *, overflows: bool) -> Iterator[Way]:
        """Yield the way to a target with each of its provider's credentials; they follow each other and share the target."""
        terms = self._catalogue.tiers.get(target.tier) or TierTerms()
        tenant = tenant_of(key, self._catalogue.orgs)
        past = overflows or RATE_LIMIT in self._catalogue.fallback.on
        billed = self._catalogue.tiers
        served = Echo(target.tier, multiplier(target.tier, billed))
        echoed = echoes(target.tier, target.deployment.provider, billed)
        tariffs = timetable(target.model.price, served, echoed, target.deployment.cost)
        pool = pool_of(target.model, billed)
        patience = patience_with(target.model, terms) if pool else NO_PATIENCE
        for upstream in upstreams_of(target.deployment, terms):
            charges = target_charges(tenant, target, terms, walks_past_rates=past)
            yield Way(target, upstream, charges, smallest_bucket_tokens(charges), tariffs, pool, patience, budgets_of(charges))


REFUSALS = (InvalidValue, UnsupportedParameter, UnsupportedPrompt, ContextLengthExceeded)
"""What a model can have against a request that another may serve."""


def _not_served(key: Key, model: Model, request: InferenceRequest) -> UnsupportedParameter | UnsupportedPrompt:
    """Return the error of a request that no deployment of the model has an endpoint for."""
    field = unsaid_in_chat(request)
    asked = [each for each in model.deployments if takes(each, request.endpoint)]
    if field is not None and any(serving_endpoint(each, key, (Endpoint.CHAT,)) for each in asked):
        return refuse_chat(model, field)
    return UnsupportedParameter(f"The model '{model.name}' does not serve {request.endpoint}", param="model")


def reserved(candidates: Sequence[Candidate], request: InferenceRequest, now_unix_ms: int) -> tuple[Candidate, ...]:
    """Return the candidates; where they spend a budget, each with the most that any may spend, since any may come to serve."""
    if not candidates[0].way.budgets:
        return tuple(candidates)
    spent = [
        most_spent(request, each.target.model, tariff) for each in candidates for tariff in near(each.way.tariffs, now_unix_ms)
    ]
    nano_usd, tokens = map(max, zip(*spent, strict=True))
    held = (replace(each.row.estimate, cost_nano_usd=nano_usd, budget_tokens=tokens) for each in candidates)
    return tuple(replace(each, row=replace(each.row, estimate=cost)) for each, cost in zip(candidates, held, strict=True))


def remaining(plan: Plan, ends: Sequence[End], *, waits: bool = False) -> tuple[int, ...]:
    """Return the candidates to offer next, in order; empty when the walk is over.

    A candidate that is offered and refused ends in `capacity`, so a stage behind untried candidates is within reach only if
    `capacity` leads on; one behind failed attempts only if each of their classes does. Where the request `waits`, those of its
    last model that had no room are offered again: a place in their queue is what it waits for.
    """
    if not ends and EndClass.CAPACITY in plan.leads_on:
        return tuple(range(len(plan.candidates)))
    if sum(end.sent for end in ends) >= plan.max_attempts or any(_stops(plan, end) for end in ends):
        return ()
    ended = {end.candidate: end for end in ends if not (waits and _may_wait(plan, end))}
    gone = {
        plan.candidates[place].account if end.alone else plan.candidates[place].target.deployment.id
        for place, end in ended.items()
        if end.end_class != RATE_LIMIT
    }
    found: list[int] = []
    stage, leads_on = 0, True
    for place, candidate in enumerate(plan.candidates):
        if candidate.stage != stage:
            if not leads_on:
                break
            stage, leads_on = candidate.stage, True
        if place in ended:
            # A rate that ends the walk never gets here: one that is walked past leads on by itself.
            leads_on = leads_on and ended[place].end_class in {RATE_LIMIT, *plan.leads_on}
        elif gone.isdisjoint({candidate.target.deployment.id, candidate.account}) and all(
            _may_follow(plan, candidate, end) for end in ends
        ):
            found.append(place)
            leads_on = leads_on and EndClass.CAPACITY in plan.leads_on
    return tuple(found)


def offer(plan: Plan, places: Sequence[int]) -> tuple[Row, ...]:
    """Return the rows of candidates to offer. The last deployment of all is told that nothing comes after it.

    Where a fault does not lead from model to model, that holds for the last one of each. Of several credentials there, which
    follow each other, it is told the last one.
    """
    rows: list[Row] = []
    stage: int | None = None
    last: str | None = None
    behind: Candidate | None = None
    for place in reversed(places):
        candidate = plan.candidates[place]
        row = candidate.row
        if candidate.stage != stage:
            last = row.upstream.deployment if stage is None or EndClass.UNAVAILABLE not in plan.leads_on else None
            stage = candidate.stage
        is_last = row.upstream.deployment == last and not (behind is not None and behind.target is candidate.target)
        rows.append(replace(row, last=True) if is_last else row)
        behind = candidate
    rows.reverse()
    return tuple(rows)


def _may_wait(plan: Plan, end: End) -> bool:
    return end.end_class == EndClass.CAPACITY and plan.candidates[end.candidate].stage == plan.candidates[-1].stage


def _stops(plan: Plan, end: End) -> bool:
    """Return whether nothing may follow: the request itself is at fault, and the operator wants no other opinion."""
    return end.end_class == EndClass.CLIENT or (end.end_class in REASONS.values() and end.end_class not in plan.leads_on)


def _may_follow(plan: Plan, candidate: Candidate, end: End) -> bool:
    """Return whether a candidate makes sense after this end: one model's other providers would refuse for the same reason."""
    if end.end_class not in REASONS.values():
        return True
    ended = plan.candidates[end.candidate]
    if candidate.stage == ended.stage:
        return False
    smaller, larger = ended.target.model.context_window, candidate.target.model.context_window
    return end.end_class != REASONS["context_length_exceeded"] or larger is None or smaller is None or larger > smaller
