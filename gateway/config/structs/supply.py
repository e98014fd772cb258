"""The sections on what is served: providers, models and their deployments, prices, tiers. Durations in seconds, money in USD."""

import datetime
from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import field

from gateway.config.scalars import Duration, Factor, ModelName, Name, Period, UsdPerMillion
from gateway.config.structs.base import Count, Section, Share
from gateway.config.structs.capabilities import Capabilities, DeploymentCapabilities
from gateway.policy.catalogue import Secret, Tier
from gateway.policy.strategy import Strategy
from gateway.providers import DIALECTS, PRESETS
from gateway.wire.request import Endpoint

Text = Annotated[str, msgspec.Meta(min_length=1)]

PresetName = Annotated[str, msgspec.Meta(extra={"words": PRESETS})]
"""Those that `gateway/providers/presets.yaml` has."""


DialectName = Annotated[str, msgspec.Meta(extra={"words": tuple(sorted(DIALECTS))})]
"""Those that `gateway.providers` has."""


class Quirks(Section, frozen=True, kw_only=True):
    """How a provider differs from the dialect that it speaks.

    `fail_fast` sends that field along while another candidate remains; `stream_options` false: it refuses the field;
    `max_tokens_field` is its name for the output bound; `embeddings_base64`: it knows `encoding_format`, and may be
    asked for vectors as base64; `adaptive_thinking`: its models choose how many tokens they think, and take an effort where
    others take a budget; `reasoning_back` is the member in which it wants back what its answers thought, of conversations that
    came as Messages; `finish_chunk_usage`: its streams tell their usage on the chunk that ends them, and none behind;
    `text_offset` is whose way of counting completions follow that it serves through chat.
    """

    fail_fast: bool = False
    stream_options: bool = True
    continuous_usage: bool = False
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    embeddings_base64: bool = False
    adaptive_thinking: bool = False
    reasoning_outside: bool = False
    reasoning_back: Literal["reasoning_content", "reasoning"] | None = None
    finish_chunk_usage: bool = False
    text_offset: Literal["openai", "vllm"] = "openai"


class Provider(Section, frozen=True, kw_only=True):
    """One account at one provider, or several that are alike.

    What is not written here is as its `preset` has it; `base_url` is needed where that has none. `tiers` maps ours to theirs:
    what is not listed is not sent. `endpoints` is what it serves natively. `api_key` absent sends no credential; `api_keys` are
    several, of which a request takes any. `proxy` needs `transport: httpx`. `allow_store` lets a client's `store` through.
    `tier_echo` is what an answer means that names no tier: that it had the one that was sent, or (`when_applied`) default where
    that is lower. `betas` are patterns of the betas of Messages that clients may ask for there by their header
    `anthropic-beta`, absent the usual ones. `api_version` is that of Azure's classic endpoint. `lacks` are fields of a body
    that it refuses.
    """

    preset: PresetName | None = None
    base_url: Text = ""
    dialect: DialectName = "openai"
    api_key: Secret | None = None
    api_keys: Annotated[tuple[Secret, ...], msgspec.Meta(min_length=1)] | None = None
    api_version: Text | None = None
    tiers: dict[Tier, Text] = {}
    endpoints: tuple[Endpoint, ...] = (Endpoint.CHAT,)
    quirks: Quirks = Quirks()
    allow_http: bool = False
    unknown_fields: Literal["forward", "drop"] = "forward"
    lacks: tuple[Text, ...] = ()
    on_disconnect: Literal["cancel", "drain"] = "cancel"
    transport: Literal["http1", "httpx"] = "http1"
    headers: dict[str, Secret] = {}
    betas: tuple[Text, ...] | None = None
    ca_file: str | None = None
    proxy: Secret | None = None
    tier_echo: Literal["always", "when_applied"] = "always"
    allow_store: bool = False


class CapacityLimits(Section, frozen=True, kw_only=True):
    """The operator's own bounds on a model or deployment: a minute's requests and tokens, and requests at once."""

    rpm: Count | None = None
    tpm: Count | None = None
    concurrency: Count | None = None


class ModelLimits(CapacityLimits, frozen=True, kw_only=True):
    """The operator's own bounds on a model. `shadow`: they are counted and refuse nothing; a deployment's always hold."""

    shadow: bool = False


class ModelQueue(Section, frozen=True, kw_only=True):
    """The bounds of a model's queue: waiters in all (default 4 times the ceiling, at least 32), and an org's share of them."""

    max_waiters: Count | None = None
    per_org: Share = 0.5


class Timeouts(Section, frozen=True, kw_only=True):
    """The timers of one upstream exchange.

    `first_content` is for streams alone: an unary answer may take `total`. `idle` is between two events; comments never count.
    `client_stall` is how long a client may leave its bytes unread.
    """

    connect_s: Period = field(name="connect", default=3.0)
    pool_s: Period = field(name="pool", default=0.25)
    write_s: Period = field(name="write", default=10.0)
    first_content_s: Period = field(name="first_content", default=30.0)
    idle_s: Period = field(name="idle", default=60.0)
    client_stall_s: Period = field(name="client_stall", default=30.0)
    total_s: Period = field(name="total", default=900.0)


class PartRates(Section, frozen=True, kw_only=True):
    """What is priced otherwise than the whole: USD per million tokens, `per_request` USD. What is not written stays as it is."""

    input: UsdPerMillion | None = None
    output: UsdPerMillion | None = None
    cached_input: UsdPerMillion | None = None
    cache_write: UsdPerMillion | None = None
    cache_write_1h: UsdPerMillion | None = None
    reasoning: UsdPerMillion | None = None
    per_request: Factor | None = None


class PriceStep(PartRates, frozen=True, kw_only=True):
    """The prices of a request whose input is above so many tokens; they hold for all of it."""

    above: Count


class TierPrice(PartRates, frozen=True, kw_only=True):
    """A tier's own prices, which no multiplier changes."""

    steps: tuple[PriceStep, ...] = ()


class Price(Section, frozen=True, kw_only=True):
    """Prices in USD per million tokens; `per_request` in USD.

    `input` includes what was cached and what was cached anew, `output` includes reasoning: a part without a price of its own
    costs what the whole does. A price holds from its day on (UTC); several follow each other.
    """

    input: UsdPerMillion
    output: UsdPerMillion
    cached_input: UsdPerMillion | None = None
    cache_write: UsdPerMillion | None = None
    cache_write_1h: UsdPerMillion | None = None
    reasoning: UsdPerMillion | None = None
    per_request: Factor | None = None
    steps: tuple[PriceStep, ...] = ()
    tiers: dict[Tier, TierPrice] = {}
    from_date: datetime.date | None = field(name="from", default=None)


Prices = Price | Annotated[tuple[Price, ...], msgspec.Meta(min_length=1)]


class Deployment(Section, frozen=True, kw_only=True):
    """A model at a provider. `order` 2 is tried only when no 1 can; `weight` splits the traffic inside an order.

    `max_concurrency` absent is no ceiling. `cost` is what the operator pays; absent, it is the catalogue's price. `capabilities`
    are fewer than the model's.
    """

    provider: Name
    model: Text
    max_concurrency: Count | None = None
    weight: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    order: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    limits: CapacityLimits = CapacityLimits()
    cost: Prices | None = None
    capabilities: DeploymentCapabilities | None = None


class Model(Section, frozen=True, kw_only=True):
    """What clients name. `tiers` absent offers every tier that has a price. Token counts absent are not checked.

    `price` is what the org is charged; absent, it is the catalogue's of the first deployment that has one. `strategy` orders the
    deployments of one order: by weight, or as each worker finds them the least busy first, or the fastest.
    """

    deployments: Annotated[tuple[Deployment, ...], msgspec.Meta(min_length=1)]
    aliases: tuple[ModelName, ...] = ()
    context_window: Count | None = None
    max_output_tokens: Count | None = None
    max_n: Count | None = None
    tiers: tuple[Tier, ...] | None = None
    price: Prices | None = None
    fallbacks: tuple[ModelName, ...] = ()
    timeouts: Timeouts = Timeouts()
    capabilities: Capabilities = Capabilities()
    limits: ModelLimits = ModelLimits()
    queue: ModelQueue = ModelQueue()
    strategy: Strategy = Strategy.WEIGHTED


class TierTerms(Section, frozen=True, kw_only=True):
    """A tier's price as a multiple of the model's, its longest wait, and the share of a deployment that it may fill."""

    price: Factor = Decimal("1.0")
    queue_s: Duration = field(name="queue", default=30.0)
    headroom: Share = 1.0


class PriorityTerms(TierTerms, frozen=True, kw_only=True):
    """The terms of `priority`: ahead of all others, and dearer."""

    price: Factor = Decimal("1.5")
    queue_s: Duration = field(name="queue", default=10.0)


class OverLimitTerms(TierTerms, frozen=True, kw_only=True):
    """The terms of `over-limit`: never waits, and leaves room for those within their limits."""

    queue_s: Duration = field(name="queue", default=0.0)
    headroom: Share = 0.85


class FlexTerms(TierTerms, frozen=True, kw_only=True):
    """The terms of `flex`: cheap, on spare room only."""

    price: Factor = Decimal("0.8")
    queue_s: Duration = field(name="queue", default=300.0)
    headroom: Share = 0.70


class Tiers(Section, frozen=True, kw_only=True):
    """The price list of service. A file that has this section prices here every tier that it offers."""

    priority: PriorityTerms | None = None
    default: TierTerms | None = None
    over_limit: OverLimitTerms | None = field(name="over-limit", default=None)
    flex: FlexTerms | None = None
    no_limit: TierTerms | None = field(name="no-limit", default=None)

    def priced(self) -> dict[Tier, TierTerms]:
        """Return the tiers that have a price, with their terms."""
        terms: dict[Tier, TierTerms | None] = {
            Tier.PRIORITY: self.priority,
            Tier.DEFAULT: self.default,
            Tier.OVER_LIMIT: self.over_limit,
            Tier.FLEX: self.flex,
            Tier.NO_LIMIT: self.no_limit,
        }
        return {tier: found for tier, found in terms.items() if found is not None}


SHIPPED_TIERS = Tiers(
    priority=PriorityTerms(), default=TierTerms(), over_limit=OverLimitTerms(), flex=FlexTerms(), no_limit=TierTerms()
)
