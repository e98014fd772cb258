"""The words of an explanation: the rule behind a tier, a wait, a hold and a charge, named as the configuration does. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from gateway.policy.access import serving_endpoint
from gateway.policy.admission import Precedence, Row
from gateway.policy.capabilities import endpoints_for, lacking, made_of, takes, unsaid_in_chat
from gateway.policy.catalogue import Deployment, Key, Model, Tier, TierTerms
from gateway.policy.charges import Charge, Dimension, Kind, Unit
from gateway.policy.charging import Target
from gateway.policy.estimates import FEWEST_TOKENS, LONGEST_HOLD_TOKENS, SHARE_OF_BUCKET, estimate, smallest_bucket_tokens
from gateway.policy.explanation import Above, Charged, Hold, Rates, TierChoice
from gateway.policy.growth import BASE_MILLI
from gateway.policy.lacking import lacked
from gateway.policy.natures import KEPT, unsaid
from gateway.policy.prices import Exact, Price, Stepped
from gateway.policy.pricing import Tariff
from gateway.policy.strategy import Strategy
from gateway.policy.tiers import SPENDS_NO_RATES, WORDS, Wish, absent
from gateway.wire.request import Endpoint, InferenceRequest

CLASSES: Mapping[Precedence, str] = {
    Precedence.PRIORITY: "priority",
    Precedence.DEFAULT: "default",
    Precedence.OVER_LIMIT: "over-limit",
    Precedence.FLEX: "flex",
}

TURNS: Mapping[Precedence, str] = {
    Precedence.PRIORITY: "its turn comes before default's, four to one",
    Precedence.DEFAULT: "priority's turn comes before it, four to one",
    Precedence.OVER_LIMIT: "on spare capacity, and never in a queue",
    Precedence.FLEX: "on spare capacity, after priority and default",
}

SCOPES: Mapping[str, tuple[str, str]] = {
    "k": ("key", "limits of key or plan"),
    "km": ("key x model", "per_model of key or plan"),
    "p": ("project", "limits of the project"),
    "o": ("org", "limits of the org"),
    "om": ("org x model", "per_model of the org"),
    "kf": ("key", "flex of key or plan"),
    "kx": ("key", "over_limit of key or plan"),
    "m": ("model", "limits of the model"),
    "d": ("deployment", "limits of the deployment"),
    "kb": ("key", "budget of key or plan"),
    "pb": ("project", "budget of the project"),
    "ob": ("org", "budget of the org"),
}
"""What a bucket belongs to, and where its limit is written, by the first part of its name."""

UNITS: Mapping[Unit, str] = {
    Unit.REQUEST: "requests",
    Unit.INPUT: "input tokens",
    Unit.OUTPUT: "output tokens",
    Unit.TOTAL: "tokens",
    Unit.SLOT: "slots",
    Unit.NANO_USD: "nano-USD",
    Unit.BUDGET_TOKENS: "tokens",
}

_LIVE = "as each worker finds it, which is not known here: the heaviest is named first"

ORDERS: Mapping[Strategy, tuple[str, ...]] = {
    Strategy.WEIGHTED: (),
    Strategy.LEAST_BUSY: (f"least_busy: of one order the smallest share of room in use comes first, {_LIVE}",),
    Strategy.LATENCY: (f"latency: of one order the fastest of late comes first, {_LIVE}",),
}
"""What a model's strategy makes of the order of its deployments, where it is more than weights and chance."""

DETOUR = "{0} are made of its chat, after every deployment that has {0}"


def tier(request: InferenceRequest, key: Key, wanted: Wish) -> TierChoice:
    """Return what the request's word for the tier led to."""
    word = request.service_tier
    meaning = absent(key, request.endpoint, request.contract) if word is None else word
    sought, rule = _sought(meaning, replace(key, auto=key.auto or request.contract.auto), wanted)
    rules = ["asked for"]
    if word is None:
        rules = ["the key's default_tier" if key.default_tier else f"what an absent service_tier means on {request.endpoint}"]
    if meaning != sought:
        rules.append(rule)
    downgraded = sought is not wanted.tier
    if downgraded:
        rules.append(f"the key may not use {sought}")
    return TierChoice(
        requested=word,
        meaning=meaning,
        tier=wanted.tier,
        downgraded=downgraded,
        rule="; ".join(rules),
        over_limit=wanted.overflow,
        over_limit_rule=_over_limit(meaning, key, wanted),
    )


def _sought(meaning: str, key: Key, wanted: Wish) -> tuple[Tier, str]:
    """Return the tier that a word leads to before the key's rights are looked at, and by which rule."""
    if meaning != "auto":
        return WORDS[meaning], f"'{meaning}' means {WORDS[meaning]}"
    if key.auto == "priority":
        return Tier.PRIORITY, "auto: priority"
    if key.auto == "project" and key.project is not None and key.project in key.project_tiers:
        return key.project_tiers[key.project], f"auto: project, which is '{key.project}'"
    return wanted.tier, "auto: project, without a project of the org" if key.auto == "project" else "auto: overflow"


def _over_limit(meaning: str, key: Key, wanted: Wish) -> str:
    if wanted.overflow:
        return "served over the limit where a rate of key or org refuses"
    if meaning != "auto":
        return "only auto is served over the limit"
    if key.over_limit is None:
        return "over_limit of key or plan is false"
    return f"auto led to {wanted.tier}, which is never over the limit"


def share(target: Target, equal: Sequence[Deployment]) -> float | None:
    """Return a target's chance of being first of those that are equal to it, None where figures decide that nobody knows here."""
    if target.model.strategy is not Strategy.WEIGHTED and len(equal) > 1:
        return None
    return round(target.deployment.weight / sum(each.weight for each in equal), 4)


def lesser_tiers(wanted: Wish, served: tuple[Tier, ...]) -> Iterator[str]:
    """Yield what a model makes of the tier that it is asked for, where that is less."""
    if wanted.tier not in served:
        yield f"does not offer {wanted.tier}"
    if wanted.overflow and Tier.OVER_LIMIT not in served:
        yield "does not offer over-limit"


def unable(deployment: Deployment, key: Key, request: InferenceRequest) -> str | None:
    """Return why a deployment is no target for a request that its model takes, None where it is one."""
    if not takes(deployment, request.endpoint):
        return f"its capabilities.endpoints lacks {request.endpoint}"
    if serving_endpoint(deployment, key, endpoints_for(request)) is None:
        return _cannot_serve(deployment, request)
    can = deployment.capabilities
    if can is not None and (lack := lacking(can, request)) is not None:
        if lack.capability == "thinking_off":
            return "its capabilities.thinking is always"
        return f"its capabilities.{lack.capability} is {str(getattr(can, lack.capability)).lower()}"
    if (field := lacked(deployment.provider.lacks, request)) is not None:
        return f"providers.{deployment.provider.name}.lacks has '{field}'"
    field = unsaid(deployment.provider.nature, request)
    return None if field is None else _cannot_say(deployment, field)


def _cannot_serve(deployment: Deployment, request: InferenceRequest) -> str:
    name, has = deployment.provider.name, deployment.provider.endpoints
    if has.isdisjoint(endpoints_for(request)):
        field = unsaid_in_chat(request) if Endpoint.CHAT in has else None
        through = "" if field is None else f", and chat cannot take this '{field}'"
        return f"providers.{name}.endpoints lacks {request.endpoint}{through}"
    return f"the key's providers do not allow {name}"


def _cannot_say(deployment: Deployment, field: str) -> str:
    name = deployment.provider.name
    if field in KEPT:
        return f"providers.{name}.allow_store is false, so that it keeps nothing for '{field}'"
    return f"the dialect of providers.{name} ({deployment.provider.dialect}) has no '{field}'"


def wait(row: Row, *, waits: bool, fail_fast: bool) -> str:
    """Return by which rule a request waits, or does not."""
    if waits:
        return f"tiers.{row.tier}.queue, models.{row.model}.queue, no longer than x-request-timeout"
    return "fail_fast is true" if fail_fast else f"tiers.{row.tier}.queue is 0"


def hold(request: InferenceRequest, model: Model, row: Row) -> Hold:
    """Return the tokens that are held for a candidate, and where the figure comes from."""
    source, rule = _output(request, model, row)
    held = row.estimate
    counted = "counted from token ids" if request.token_prompt else "estimated from the prompt's bytes"
    return Hold(
        input_tokens=held.input,
        output_tokens=held.output,
        total_tokens=held.total,
        output_source=source,
        rule=f"input {counted}; output {rule}",
    )


def _output(request: InferenceRequest, model: Model, row: Row) -> tuple[str, str]:
    if not request.endpoint.generates:
        return "none", f"none, {request.endpoint} generate nothing"
    bucket, held = smallest_bucket_tokens(row.charges), row.estimate.output
    if bucket is not None and held < estimate(request, model, None).output:
        if held == FEWEST_TOKENS:
            return "fewest", f"{FEWEST_TOKENS}, the least without max_tokens"
        return "bucket_share", f"1/{SHARE_OF_BUCKET} of the smallest token bucket ({bucket}) without max_tokens"
    outputs = request.made * request.prompts
    each = held // outputs
    times = f" x {made_of(request)} {request.made} x prompts {request.prompts}" if outputs > 1 else ""
    if request.max_tokens == each:
        return "max_tokens", f"max_tokens {each}{times}"
    if model.max_output_tokens == each:
        return "max_output_tokens", f"the model's max_output_tokens {each}{times}"
    return "longest_hold", f"{LONGEST_HOLD_TOKENS}, the most that is held{times}"


def charged(charge: Charge, row: Row, terms: TierTerms) -> Charged:
    """Return what a candidate takes from one bucket."""
    scope, rule = SCOPES[charge.scope.partition(":")[0]]
    bounded = True
    if scope == "deployment" and charge.dimension is Dimension.CONCURRENCY:
        bounded = bool(row.upstream.slots)
        rule = f"slots x headroom {terms.headroom:g}" if bounded else "no max_concurrency: congestion sets one"
    if charge.is_budget:
        most = (
            "the most that the dearest target may cost" if charge.unit is Unit.NANO_USD else "the most that any target may take"
        )
        rule = f"{rule}, in each UTC {charge.scope.split(':')[1]}: {most}"
    if charge.dynamic is not None:
        rule = f"{rule}, grows with use up to {charge.dynamic.ceiling_milli / BASE_MILLI:g} times"
    if charge.shadow:
        rule = f"{rule}, a shadow: counted, and refuses nothing"
    cost = row.estimate.of(charge.unit)
    return Charged(
        scope=scope,
        bucket=charge.scope,
        dimension=charge.dimension.name.lower(),
        limit=charge.limit if bounded else None,
        burst=charge.capacity if bounded else None,
        rate=charge.rate if charge.kind is Kind.RATE else None,
        period_s=charge.period_ms // 1000 or None,
        cost=cost,
        unit=UNITS[charge.unit],
        ends_walk=charge.ends_walk,
        fits=charge.shadow or cost <= charge.capacity,
        rule=rule,
    )


def spending(served: Tier) -> str:
    """Return what a tier spends of its caller; concurrency always holds."""
    return f"{served} spends {'no' if served in SPENDS_NO_RATES else 'the'} rates of key and org"


def priced(price: Price, tariff: Tariff) -> str:
    """Return by which price a target is charged."""
    if tariff.tier in price.tiers:
        return f"{price.source}, its own for {tariff.tier}"
    return f"{price.source} x {float(tariff.multiplier):g}, tiers.{tariff.tier}.price"


def rates(price: Price, sold: Stepped, tariff: Tariff) -> Rates:
    """Return the rates of the tier that is served."""
    steps = (
        Above(above_tokens=step.above, input_nano_usd_per_token=figure(step.input), output_nano_usd_per_token=figure(step.output))
        for step in sold.steps
    )
    return Rates(
        input_nano_usd_per_token=figure(sold.input),
        output_nano_usd_per_token=figure(sold.output),
        cached_input_nano_usd_per_token=None if sold.cached_input is None else figure(sold.cached_input),
        cache_write_nano_usd_per_token=None if sold.cache_write is None else figure(sold.cache_write),
        cache_write_1h_nano_usd_per_token=None if sold.cache_write_1h is None else figure(sold.cache_write_1h),
        reasoning_nano_usd_per_token=None if sold.reasoning is None else figure(sold.reasoning),
        per_request_nano_usd=figure(sold.per_request),
        steps=tuple(steps),
        multiplier=float(tariff.multiplier),
        source=price.source,
        version=price.version,
        cost_source=None if tariff.cost is None else tariff.cost.source,
    )


def figure(amount: Exact) -> float:
    """Return an exact amount as JSON has it."""
    return int(amount) if amount.denominator == 1 else float(amount)
