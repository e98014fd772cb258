"""The plan of a request and the walk along it: which candidates, in which order, and when to move on or give up.

The walk is the wire contract's (section 3): inside a model its providers stand in for each other; from model to model only ends
of a class in `fallback.on` lead. Pure.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from math import log

import msgspec

from gateway.errors import EndClass, Failed, Fault, ModelNotFound, UnsupportedParameter
from gateway.policy.admission import Charge, Row
from gateway.policy.capabilities import check_key_bounds, check_model
from gateway.policy.catalogue import Catalogue, Deployment, Key, Model, Org, Tier, TierTerms
from gateway.policy.charging import Target, Tenant, target_charges
from gateway.policy.estimates import estimate, smallest_bucket_tokens
from gateway.policy.tiers import Wish, served
from gateway.wire.request import Endpoint, InferenceRequest, refuse_entries


class Candidate(msgspec.Struct, frozen=True):
    """One thing to try. `stage` is its model's place in the chain; `shown` the name that the client knows the model by."""

    stage: int
    shown: str
    target: Target
    row: Row


class Plan(msgspec.Struct, frozen=True):
    """All candidates in the order of the walk, and what leads from one stage to the next."""

    candidates: tuple[Candidate, ...]
    leads_on: frozenset[str]
    max_attempts: int


class End(msgspec.Struct, frozen=True):
    """How one candidate ended: by a refusal before it was tried (`sent` False) or by a failed attempt."""

    candidate: int
    end_class: str
    sent: bool


RATE_LIMIT = "rate_limit"
"""The class of a refusal by a limit of the caller's own; leads on only where the operator says so."""


REASONS: Mapping[str, str] = {"context_length_exceeded": "context_length", "content_filter": "content_filter"}
"""Refusals for the request's own sake that another model may not share, by their code: opt-in classes of `fallback.on`."""


class Planner:
    """Plans requests against one snapshot of the catalogue; remembers the charges of keys and deployments that it has met."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._charges: dict[tuple[str, str, Tier, bool], tuple[tuple[Charge, ...], int | None]] = {}

    def plan(self, key: Key, request: InferenceRequest, wanted: Wish, dice: int) -> Plan:
        """Return the plan; `dice` (64 random bits) spreads requests over equal deployments.

        Raises `ModelNotFound`, `InvalidValue`, `Unprocessable` and `UnsupportedParameter`: every model of the list is judged
        before any is tried.
        """
        check_key_bounds(key, request)
        chain = self._chain(key, request)
        fallback = self._catalogue.fallback
        tenant = Tenant(key, self._catalogue.orgs.get(key.org) or Org(name=key.org))
        candidates: list[Candidate] = []
        for stage, (shown, model) in enumerate(chain):
            check_model(model, request)
            serving = [d for d in model.deployments if can_serve(d, key, request.endpoint)]
            if not serving:
                raise UnsupportedParameter(f"The model '{shown}' does not serve {request.endpoint}", param="model")
            tiers = served(wanted, model, key)
            ordered = weighted_order(serving, dice)
            for tier in tiers:
                overflows = tier is not tiers[-1] or tier is Tier.OVER_LIMIT
                for deployment in ordered:
                    target = Target(model, deployment, tier)
                    candidates.append(Candidate(stage, shown, target, self._row(tenant, target, request, overflows=overflows)))
        return Plan(tuple(candidates), fallback.on, fallback.max_attempts)

    def _chain(self, key: Key, request: InferenceRequest) -> list[tuple[str, Model]]:
        names: Sequence[str] = request.models if request.models is not None else (request.model or "",)
        refuse_entries(request.models or (), self._catalogue.names)
        chain: dict[str, tuple[str, Model]] = {}
        for name in names:
            model = find_model(name, key, self._catalogue.names)
            chain.setdefault(model.name, (name, model))
        if request.models is None:
            for name in next(iter(chain.values()))[1].fallbacks[: self._catalogue.fallback.max_models - 1]:
                model = self._catalogue.names[name]
                if may_use(key, model):
                    chain.setdefault(model.name, (model.name, model))
        return list(chain.values())

    def _row(self, tenant: Tenant, target: Target, request: InferenceRequest, *, overflows: bool) -> Row:
        found = (tenant.key.id, target.deployment.id, target.tier, overflows)
        cached = self._charges.get(found)
        if cached is None:
            terms = self._catalogue.tiers.get(target.tier) or TierTerms()
            past = overflows or RATE_LIMIT in self._catalogue.fallback.on
            charges = target_charges(tenant, target, terms, walks_past_rates=past)
            cached = self._charges[found] = (charges, smallest_bucket_tokens(charges))
        charges, smallest = cached
        return Row(target.deployment.id, target.model.name, target.tier, charges, estimate(request, target.model, smallest))


def find_model(name: str, key: Key, names: Mapping[str, Model]) -> Model:
    """Return the model that a client names. Raises `ModelNotFound`, in the same words whether it is unknown or forbidden."""
    model = names.get(name)
    if model is None or not may_use(key, model):
        raise ModelNotFound(f"The model '{name[:200]}' does not exist or you do not have access to it", param="model")
    return model


def may_use(key: Key, model: Model) -> bool:
    """Return whether the key's patterns allow the model."""
    return any(pattern == "*" or fnmatchcase(model.name, pattern) for pattern in key.models)


def can_serve(deployment: Deployment, key: Key, endpoint: Endpoint) -> bool:
    """Return whether the deployment serves this endpoint natively and the key may be sent there."""
    provider = deployment.provider
    return endpoint in provider.endpoints and any(p == "*" or fnmatchcase(provider.name, p) for p in key.providers)


def weighted_order(deployments: Sequence[Deployment], dice: int) -> list[Deployment]:
    """Return the deployments in the order to try: by `order`, inside one by weighted chance.

    Sorting by -ln(u)/weight with one u each draws without replacement in proportion to the weights (Efraimidis and Spirakis).
    """
    if len(deployments) == 1:
        return list(deployments)
    drawn = [(d.order, -log(_chance(dice, place)) / d.weight, place) for place, d in enumerate(deployments)]
    return [deployments[place] for _, _, place in sorted(drawn)]


def _chance(dice: int, place: int) -> float:
    """Return a number in (0, 1] from the dice, another one for each place (a step of splitmix64)."""
    mixed = (dice + (place + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return ((mixed ^ (mixed >> 31)) + 1) / 2**64


def end_class(failed: Failed) -> str:
    """Return the class that a failed attempt ends in; some refusals for the request's own sake have one of their own."""
    if failed.fault is Fault.REJECTED and failed.code is not None:
        return REASONS.get(failed.code, EndClass.CLIENT)
    return failed.fault.end_class


def remaining(plan: Plan, ends: Sequence[End]) -> tuple[int, ...]:
    """Return the candidates to offer next, in order; empty when the walk is over.

    A candidate that is offered and refused ends in `capacity`, so a stage behind untried candidates is within reach only if
    `capacity` leads on; one behind failed attempts only if each of their classes does.
    """
    if sum(end.sent for end in ends) >= plan.max_attempts or any(_stops(plan, end) for end in ends):
        return ()
    ended = {end.candidate: end.end_class for end in ends}
    gone = {plan.candidates[place].target.deployment.id for place, end in ended.items() if end != RATE_LIMIT}
    found: list[int] = []
    stage, leads_on = 0, True
    for place, candidate in enumerate(plan.candidates):
        if candidate.stage != stage:
            if not leads_on:
                break
            stage, leads_on = candidate.stage, True
        if place in ended:
            # A rate that ends the walk never gets here: one that is walked past leads on by itself.
            leads_on = leads_on and (ended[place] == RATE_LIMIT or ended[place] in plan.leads_on)
        elif candidate.target.deployment.id not in gone and all(_may_follow(plan, candidate, end) for end in ends):
            found.append(place)
            leads_on = leads_on and EndClass.CAPACITY in plan.leads_on
    return tuple(found)


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
