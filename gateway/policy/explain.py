"""Why the gateway would do with a request what it would do: the corridor's own decisions, each told with the rule behind it.

Asks the code that plans requests and adds words; decides nothing itself, and knows no bucket's level. Credentials, heads and the
sizes of bodies are the web room's. Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from gateway.errors import GatewayError, InvalidJson, Unauthenticated, Unprocessable, status_of
from gateway.policy import verdicts, wording
from gateway.policy.access import may_use
from gateway.policy.accounts import credentials
from gateway.policy.adjustments import adjust
from gateway.policy.admission import Acquire, Seed
from gateway.policy.answers import Refused
from gateway.policy.catalogue import Catalogue, Deployment, Key, Model, Tier, TierTerms
from gateway.policy.charges import Kind
from gateway.policy.explanation import (
    Caller,
    Chain,
    Cost,
    Explanation,
    LeftOut,
    ModelStep,
    Rates,
    TargetStep,
    Waiting,
)
from gateway.policy.explanation import Refused as Refusal
from gateway.policy.fields import bad_values
from gateway.policy.keys import INCORRECT, check_key, for_project
from gateway.policy.leases import Buckets
from gateway.policy.patience import Patience
from gateway.policy.pricing import in_force
from gateway.policy.routing import Candidate, Plan, Planner, remaining
from gateway.policy.tiers import PRIORITIES, Wish, wish
from gateway.wire.contracts import OPENAI, Contract
from gateway.wire.envelope import detail
from gateway.wire.members import split
from gateway.wire.request import TABLES, Endpoint, InferenceRequest, parse
from gateway.wire.usage import Usage

Params = tuple[str, ...]

LeftBy = Callable[[InferenceRequest, Deployment, Tier], tuple[Params, Params]]
"""Returns the fields that a deployment's provider does not get, and those that it gets less of, as its dialect has it."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it would arrive: `project` is its `ai_project_id`, `contract` that of its path's prefix."""

    endpoint: Endpoint
    contract: Contract = OPENAI
    body: bytes
    project: str | None
    now_unix_s: float

    def __repr__(self) -> str:
        return f"Asked({self.endpoint}, {len(self.body)} bytes)"


class Case(msgspec.Struct, frozen=True):
    """A request that was heard: what all decisions about it go by."""

    catalogue: Catalogue
    key: Key
    request: InferenceRequest
    wanted: Wish
    now_unix_ms: int


def endpoint_of(body: bytes) -> Endpoint:
    """Return the endpoint that a body is written for: by the field that holds what is asked, then by those that it has besides.

    Chat, where it has none, and for messages: providers' own fields of chat are also fields of Messages.
    """
    try:
        given = split(body).raws.keys()
    except (InvalidJson, Unprocessable):
        return Endpoint.CHAT
    fitting = (each for each, table in TABLES.items() if table.asked in given and each is not Endpoint.MESSAGES)
    return min(fitting, key=lambda endpoint: len(given - TABLES[endpoint].fields.keys()), default=Endpoint.CHAT)


def explain(catalogue: Catalogue, key: Key, asked: Asked, left_by: LeftBy) -> Explanation:
    """Return what would become of a request of this key's, as far as it would come."""
    found = Explanation(endpoint=asked.endpoint, caller=_caller(key))
    try:
        # From which address the request would come is nothing that a file says.
        check_key(replace(key, ips=()), None, asked.now_unix_s)
        key = for_project(key, urlencode({"ai_project_id": asked.project or ""}).encode())
        found = replace(found, caller=_caller(key))
        request = parse(asked.endpoint, asked.body, asked.contract, judge=bad_values(key, catalogue.names))
        wanted = wish(request.service_tier, key, asked.endpoint)
        found = replace(found, tier=wording.tier(request, key, wanted))
        case = Case(catalogue, key, request, wanted, int(asked.now_unix_s * 1000))
        plan = in_order(Planner(catalogue).plan(key, request, wanted, dice=0, now_unix_ms=case.now_unix_ms))
        targets = tuple(_targets(case, plan, left_by))
        found = replace(
            found, chain=_chain(case, plan), waiting=tuple(_waits(case, plan)), targets=targets, estimated_cost=_dearest(targets)
        )
        _check_room(plan, round(asked.now_unix_s * 1000))
    except GatewayError as error:
        return replace(found, refused=_refusal(error))
    return found


def barred(key: Key, endpoint: Endpoint) -> Explanation:
    """Return what becomes of any request of a key that is blocked or revoked."""
    return Explanation(endpoint=endpoint, caller=_caller(key), refused=_refusal(Unauthenticated(INCORRECT)))


def in_order(plan: Plan) -> Plan:
    """Return the plan with the heaviest of equal deployments first, and the earliest of equally heavy ones, whatever the dice.

    Of several credentials, which chance alone puts in order, the first in the file stands for all.
    """

    def place(candidate: Candidate) -> tuple[bool, int, float, int]:
        target = candidate.target
        deployment, rank = target.deployment, target.model.deployments.index(target.deployment)
        return candidate.way.detour, deployment.order, -deployment.weight, rank

    shown = (each for each in plan.candidates if each.row.upstream.credential == each.target.deployment.provider.name)
    groups = groupby(shown, lambda candidate: (candidate.stage, candidate.target.tier))
    return replace(plan, candidates=tuple(candidate for _, group in groups for candidate in sorted(group, key=place)))


def _check_room(plan: Plan, now_ms: int) -> None:
    """Raise what the request hears if not even empty buckets hold it."""
    rows = tuple(plan.candidates[place].row for place in remaining(plan, ()))
    buckets = Buckets(note=lambda _: None)
    buckets.seed([Seed(charge, now_ms, spent=0) for row in rows[:1] for charge in row.charges if charge.is_budget])
    verdict = buckets.acquire(Acquire("explained", rows, ttl_ms=1, opened=b""), now_ms)
    if isinstance(verdict, Refused):
        raise verdicts.refused(rows, verdict.refusals, now_ms)


def _refusal(error: GatewayError) -> Refusal:
    return Refusal(
        status=status_of(error),
        type=error.error_type,
        code=error.error_code,
        param=error.param,
        message=error.message,
        should_retry=error.retryable,
        detail=detail(error),
    )


def _caller(key: Key) -> Caller:
    return Caller(key=key.name, org=key.org, project=key.project, plan=key.plan, only_from=key.ips)


def _chain(case: Case, plan: Plan) -> Chain:
    models = []
    for stage, group in groupby(plan.candidates, lambda candidate: candidate.stage):
        candidates = list(group)
        model, tiers = candidates[0].target.model, tuple(dict.fromkeys(each.target.tier for each in candidates))
        named = "asked for" if stage == 0 or case.request.models is not None else "in the fallbacks of the model asked for"
        rule = "; ".join((named, *wording.lesser_tiers(case.wanted, tiers), *wording.ORDERS[model.strategy]))
        models.append(ModelStep(model=model.name, asked_as=candidates[0].shown, tiers=tiers, rule=rule, strategy=model.strategy))
    return Chain(
        models=tuple(models),
        left_out=tuple(_left_out(case, plan)),
        leads_on=tuple(sorted(plan.leads_on)),
        max_attempts=plan.max_attempts,
    )


def _left_out(case: Case, plan: Plan) -> Iterator[LeftOut]:
    models = {candidate.target.model.name: candidate.target.model for candidate in plan.candidates}
    seen: set[str] = set()
    for name in case.request.models or ():
        model = case.catalogue.names[name].name
        if model in seen:
            yield LeftOut(model=name, deployment=None, rule="named before")
        seen.add(model)
    for name in plan.candidates[0].target.model.fallbacks if case.request.models is None else ():
        if name not in models:
            yield LeftOut(model=name, deployment=None, rule=_why_no_fallback(case, case.catalogue.models[name]))
    yield from _unable(case, models)


def _unable(case: Case, models: Mapping[str, Model]) -> Iterator[LeftOut]:
    """Yield the deployments of these models that cannot serve the request."""
    for model_name, found in models.items():
        for deployment in found.deployments:
            rule = wording.unable(deployment, case.key, case.request)
            if rule is not None:
                yield LeftOut(model=model_name, deployment=deployment.id, rule=rule)


def _why_no_fallback(case: Case, model: Model) -> str:
    if not may_use(case.key, model):
        return "the key's models do not allow it"
    try:
        Planner(case.catalogue).plan(case.key, replace(case.request, models=(model.name,)), case.wanted, dice=0)
    except GatewayError as error:
        return error.message
    return f"fallback.max_models is {case.catalogue.fallback.max_models}"


def _waits(case: Case, plan: Plan) -> Iterator[Waiting]:
    if plan.own_patience.longest_s > 0:
        yield _waiting(case, plan.candidates[0], plan.own_patience)
    last = plan.candidates[-1]
    first = next(candidate for candidate in plan.candidates if candidate.stage == last.stage)
    yield _waiting(case, first, plan.patience)


def _waiting(case: Case, candidate: Candidate, patience: Patience) -> Waiting:
    waits = patience.longest_s > 0
    return Waiting(
        model=candidate.target.model.name,
        tier=candidate.target.tier,
        tier_class=wording.CLASSES[candidate.row.precedence],
        class_rule=wording.TURNS[candidate.row.precedence],
        patience_s=patience.longest_s,
        max_waiters=patience.max_waiters if waits else 0,
        max_waiters_of_org=patience.max_of_org if waits else 0,
        rule=wording.wait(candidate.row, waits=waits, fail_fast=case.request.fail_fast),
    )


def _targets(case: Case, plan: Plan, left_by: LeftBy) -> Iterator[TargetStep]:
    def equals(candidate: Candidate) -> tuple[int, Tier, bool, int]:
        return candidate.stage, candidate.target.tier, candidate.way.detour, candidate.target.deployment.order

    for _, group in groupby(plan.candidates, equals):
        candidates = list(group)
        equal = [candidate.target.deployment for candidate in candidates]
        for candidate in candidates:
            yield _target(case, candidate, left_by, wording.share(candidate.target, equal))


def _target(case: Case, candidate: Candidate, left_by: LeftBy, share: float | None) -> TargetStep:
    target, row = candidate.target, candidate.row
    deployment, terms = target.deployment, case.catalogue.tiers.get(target.tier) or TierTerms()
    adjusted = adjust(
        case.request,
        target,
        case.key.org,
        is_bounded=bool(candidate.way.budgets) or deployment.provider.nature.bounded,
    )
    dropped, lowered = left_by(adjusted.request, deployment, target.tier)
    price, cost = _costs(candidate, case.now_unix_ms)
    return TargetStep(
        model=target.model.name,
        provider=deployment.provider.name,
        deployment=deployment.id,
        tier=target.tier,
        tier_class=wording.CLASSES[row.precedence],
        provider_tier=deployment.provider.tiers.get(target.tier),
        provider_priority=PRIORITIES.get(target.tier) if deployment.takes_priority else None,
        order=deployment.order,
        weight=deployment.weight,
        first_choice_share=share,
        credentials=credentials(deployment.provider),
        hold=wording.hold(case.request, target.model, row),
        price=price,
        cost=cost,
        charges=tuple(wording.charged(charge, row, terms) for charge in row.charges if charge.kind is not Kind.USE),
        dropped_params=adjusted.dropped + dropped,
        adjusted_params=adjusted.lowered + lowered,
        rule=wording.spending(target.tier)
        + (f"; {wording.DETOUR.format(case.request.endpoint)}" if candidate.way.detour else ""),
    )


def _costs(candidate: Candidate, now_unix_ms: int) -> tuple[Rates | None, Cost]:
    tariff, held = in_force(candidate.way.tariffs, now_unix_ms), candidate.row.estimate
    usage, target = Usage(input=held.input, output=held.output), candidate.target
    own_nano_usd = tariff.own_cost_nano_usd(usage, None)
    if tariff.price is None or tariff.rates is None:
        return None, _cost(None, f"models.{target.model.name}.price is missing", own_nano_usd)
    found = wording.rates(tariff.price, tariff.rates, tariff)
    return found, _cost(tariff.cost_nano_usd(usage, None), wording.priced(tariff.price, tariff), own_nano_usd)


def _cost(nano_usd: int | None, rule: str, own_nano_usd: int | None) -> Cost:
    micro_usd = None if nano_usd is None else -(-nano_usd // 1000)
    return Cost(cost_nano_usd=nano_usd, cost_micro_usd=micro_usd, own_cost_nano_usd=own_nano_usd, rule=rule)


def _dearest(targets: tuple[TargetStep, ...]) -> Cost:
    """Return what the dearest target costs; nobody knows which is where one has no price."""
    unpriced = next((each for each in targets if each.cost.cost_nano_usd is None), None)
    if unpriced is not None:
        return unpriced.cost
    dearest = max(targets, key=lambda each: each.cost.cost_nano_usd or 0)
    return replace(dearest.cost, rule=f"the dearest target: {dearest.deployment} at {dearest.tier}")
