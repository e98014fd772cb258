"""What an explanation of a request says, as values with names that stay: each decision with the rule behind it.

Units are in the names; prices are nano-USD. A key is known by its name, a provider by its own: nothing secret has a place here.
Pure.
"""

import msgspec

from gateway.policy.catalogue import Tier
from gateway.policy.strategy import Strategy
from gateway.wire.envelope import Detail
from gateway.wire.request import Endpoint


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a gateway that nobody else uses, where that is an error. `should_retry` None leaves it to the status."""

    status: int
    type: str
    code: str
    param: str | None
    message: str
    should_retry: bool | None
    detail: tuple[Detail, ...]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Whose request it is. `only_from` are the networks that the key is bound to, none for any."""

    key: str
    org: str
    project: str | None
    plan: str
    only_from: tuple[str, ...]


class TierChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What the client's word for the tier led to: `meaning` is that word, or the one that stands in for an absent one."""

    requested: str | None
    meaning: str
    tier: Tier
    downgraded: bool
    rule: str
    over_limit: bool
    over_limit_rule: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """How long the request may wait for a model, and behind how many; 0 is not at all."""

    model: str
    tier: Tier
    tier_class: str
    class_rule: str
    patience_s: float
    max_waiters: int
    max_waiters_of_org: int
    rule: str


class ModelStep(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the chain, and the tiers at which it would serve the request, in the order to try.

    `strategy` orders deployments of one order; where that is more than chance and weights, the rule says so.
    """

    model: str
    asked_as: str
    tiers: tuple[Tier, ...]
    rule: str
    strategy: Strategy


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A model, or one deployment of it, that was looked at and will not be tried."""

    model: str
    deployment: str | None
    rule: str


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The models to walk, what is left out, and which ends of one model lead to the next."""

    models: tuple[ModelStep, ...]
    left_out: tuple[LeftOut, ...]
    leads_on: tuple[str, ...]
    max_attempts: int


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that the request is held to cost, and which bound the output comes from."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    output_source: str
    rule: str


class Charged(msgspec.Struct, frozen=True, kw_only=True):
    """What the request takes from one bucket.

    `rate` is what leaks in `period_s`; both are null for slots, and the period for a month, which has no one length. `limit` and
    `burst` are null where slots are only counted. `fits` false: the request is larger than the whole bucket.
    """

    scope: str
    bucket: str
    dimension: str
    limit: int | None
    burst: int | None
    rate: int | None
    period_s: int | None
    cost: int
    unit: str
    ends_walk: bool
    fits: bool
    rule: str


class Above(msgspec.Struct, frozen=True, kw_only=True):
    """What tokens cost in a request with more input than that; all of them do."""

    above_tokens: int
    input_nano_usd_per_token: float
    output_nano_usd_per_token: float


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """What a target's tokens cost before the tier, and what the tier multiplies that by.

    `source` is whose price it is, `version` what the ledger knows it by, and `cost_source` whose price the operator pays.
    """

    input_nano_usd_per_token: float
    output_nano_usd_per_token: float
    cached_input_nano_usd_per_token: float | None
    cache_write_nano_usd_per_token: float | None
    cache_write_1h_nano_usd_per_token: float | None
    reasoning_nano_usd_per_token: float | None
    per_request_nano_usd: float
    steps: tuple[Above, ...]
    multiplier: float
    source: str
    version: str
    cost_source: str | None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the held tokens cost, null where nobody knows; `own_cost_nano_usd` is what the operator would pay."""

    cost_nano_usd: int | None
    cost_micro_usd: int | None
    own_cost_nano_usd: int | None
    rule: str


class TargetStep(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment at one tier. `first_choice_share` is its chance of being tried first among those of its order.

    It is null where that is up to the worker's live figures.
    `provider_tier` and `provider_priority` are what the provider is sent for the tier, null where it is sent nothing. Of several
    `credentials` chance picks the one to try first.
    """

    model: str
    provider: str
    deployment: str
    tier: Tier
    tier_class: str
    provider_tier: str | None
    provider_priority: int | None
    order: int
    weight: float
    first_choice_share: float | None
    credentials: tuple[str, ...]
    hold: Hold
    price: Rates | None
    cost: Cost
    charges: tuple[Charged, ...]
    dropped_params: tuple[str, ...]
    adjusted_params: tuple[str, ...]
    rule: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. Where the request would be refused, what was decided before is there and the rest is not."""

    endpoint: Endpoint
    caller: Caller
    refused: Refused | None = None
    tier: TierChoice | None = None
    chain: Chain | None = None
    waiting: tuple[Waiting, ...] = ()
    """For the model asked for where the configuration's fallbacks come after it, then for the last one."""
    targets: tuple[TargetStep, ...] = ()
    estimated_cost: Cost | None = None
