"""What the configuration means to a request: models, deployments, keys and their rights, as frozen values.

`gateway.config` makes one `Catalogue` of a file; the corridor only reads it. Seconds, and nano-USD. Pure.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from gateway.policy.breaker import USUAL_BREAKER, Breaker
from gateway.policy.fallback import Fallback
from gateway.policy.means import Capabilities
from gateway.policy.natures import Nature
from gateway.policy.prices import Price
from gateway.policy.strategy import Strategy
from gateway.wire.contracts import PREFIXES, Contract
from gateway.wire.request import Endpoint


class Tier(StrEnum):
    """The canonical service tiers. `OVER_LIMIT` is answered, never requested."""

    PRIORITY = "priority"
    DEFAULT = "default"
    NO_LIMIT = "no-limit"
    OVER_LIMIT = "over-limit"
    FLEX = "flex"


class Secret:
    """A string that never shows: not in `repr`, not in a log, not in an error. `reveal()` is the one way to it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret itself."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)


class Dynamic(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How rates grow with use: looking back over each window, up to `ceiling_milli` thousandths of what is written."""

    window_ms: int
    ceiling_milli: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one scope. Rates are per minute, `rpd` per UTC day, `concurrency` at once; None is no limit, or no growth.

    `shadow`: they are counted, and nothing is refused for them.
    """

    rpm: int | None = None
    tpm: int | None = None
    tpm_in: int | None = None
    tpm_out: int | None = None
    rpd: int | None = None
    concurrency: int | None = None
    burst_ratio: float = 1.0
    strict: bool = False
    dynamic: Dynamic | None = None
    shadow: bool = False


NO_LIMITS = Limits()


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent in a UTC `day`, `week` (from Monday) or `month`; the operator hears of it at `alert_ppm` millionths."""

    nano_usd: int | None = None
    tokens: int | None = None
    period: str = "month"
    alert_ppm: int = 800_000


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """The timers of one upstream exchange, in seconds. Comments never count as progress."""

    connect_s: float = 3.0
    pool_s: float = 0.25
    write_s: float = 10.0
    first_content_s: float = 30.0
    idle_s: float = 60.0
    client_stall_s: float = 30.0
    total_s: float = 900.0


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider differs from its dialect. `offset_past_prompt`: the `text_offset` made of its chat counts the prompt too."""

    fail_fast: bool = False
    stream_options: bool = True
    max_tokens_field: str | None = None
    """The name this provider wants for the output bound; None sends the name that the client wrote."""
    offset_past_prompt: bool = True
    embeddings_base64: bool = False
    """It knows `encoding_format`, and may be asked for vectors as base64; others are not sent the field."""
    adaptive_thinking: bool = False
    reasoning_outside: bool = False
    reasoning_back: str | None = None
    """The member in which it wants back what its answers thought; None refuses such a one, or does without."""
    finish_chunk_usage: bool = False
    continuous_usage: bool = False
    """A stream is asked to tell its usage on every chunk, so that one that is cut is known to the token."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One account at one provider. `base_url` has no trailing slash; the credential is bound to it. `nature`: its dialect's."""

    name: str
    dialect: str
    nature: Nature = Nature()
    base_url: str
    api_version: str | None = None
    api_key: Secret
    further_keys: tuple[Secret, ...] = ()
    """Credentials that do as well."""
    tiers: Mapping[Tier, str] = {}
    endpoints: frozenset[Endpoint] = frozenset({Endpoint.CHAT})
    headers: Mapping[str, str] = {}
    quirks: Quirks = Quirks()
    betas: tuple[str, ...] = ()
    """Patterns of the betas of Messages that clients may ask for there."""
    forward_unknown_fields: bool = True
    lacks: frozenset[str] = frozenset()
    """Fields of a body that it refuses."""
    allow_store: bool = False
    hears_out: bool = False
    """An answer whose client has left is read on for its usage; else the provider is cancelled."""
    names_tier_always: bool = True
    propagates: bool = False
    """It is told which trace a call belongs to."""
    transport: str = "http1"
    ca_file: str | None = None
    proxy: str | None = None
    most_event_bytes: int = 4 * 1024 * 1024
    """The largest event of a stream that is taken; beyond it the stream counts as broken."""

    def __repr__(self) -> str:
        # Its headers and its proxy may hold credentials of their own.
        return f"Provider({self.name!r})"


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """One model at one provider. `id` is `model/provider/upstream_model`; `max_concurrency` None is no ceiling.

    `cost` is what the operator pays for it, None where nobody knows. `capabilities` None are the model's, else they are fewer.
    `takes_priority`: it is told by vLLM's `priority` how soon a request's tier has its turn. `thinking` is `budget`,
    `adaptive` or `always`: how Anthropic's dialect asks it to.
    """

    id: str
    provider: Provider
    upstream_model: str
    max_concurrency: int | None = None
    weight: float = 1.0
    order: int = 1
    limits: Limits = NO_LIMITS
    cost: Price | None = None
    capabilities: Capabilities | None = None
    takes_priority: bool = False
    thinking: str = "budget"


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a model's queue: waiters in all, None for a multiple of its slots, and an org's share of them."""

    max_waiters: int | None = None
    per_org: float = 0.5


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A public model: what clients name, and the deployments that serve it."""

    name: str
    aliases: tuple[str, ...] = ()
    context_window: int | None = None
    max_output_tokens: int | None = None
    max_n: int | None = None
    tiers: frozenset[Tier] = frozenset(Tier)
    deployments: tuple[Deployment, ...] = ()
    price: Price | None = None
    fallbacks: tuple[str, ...] = ()
    timeouts: Timeouts = Timeouts()
    limits: Limits = NO_LIMITS
    capabilities: Capabilities = Capabilities()
    queue: Queue = Queue()
    strategy: Strategy = Strategy.WEIGHTED


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a tier that spends no rate credits: flex, and service over the limit."""

    rpm: int | None = None
    tpm: int | None = None
    concurrency: int | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One virtual key with its plan applied: the rights and limits of its bearer.

    `models` and `providers` are glob patterns. `per_model` and `concurrency_per_model` bound key and model together.
    `auto` is what that word means, None where the contract says so. `over_limit` None: `auto` never serves over the limit.
    `expires_at_s` is Unix time. `keepalive_s`: after so long a silence a stream has a comment. `explain`: it may ask what
    became of its requests. `user_hash`: the ledger tells its users apart. `edition` tells what a key of the database means
    from what it meant before, `shares` is its org.
    """

    id: str
    name: str
    org: str
    project: str | None = None
    projects: frozenset[str] | None = None
    project_tiers: Mapping[str, Tier] = {}
    project_budgets: Mapping[str, Budget] = {}
    project_limits: Mapping[str, Limits] = {}
    plan: str
    limits: Limits = NO_LIMITS
    per_model: Mapping[str, Limits] = {}
    concurrency_per_model: int | None = None
    budget: Budget | None = None
    tiers: frozenset[Tier] = frozenset({Tier.DEFAULT})
    default_tier: str | None = None
    auto: str | None = None
    flex: Guards | None = None
    over_limit: Guards | None = None
    allow_no_limit: bool = False
    reject_unsupported_tier: bool = False
    models: tuple[str, ...] = ("*",)
    providers: tuple[str, ...] = ("*",)
    max_n: int | None = None
    max_prompts: int = 32
    keepalive_s: float | None = None
    expires_at_s: float | None = None
    ips: tuple[str, ...] = ()
    explain: bool = False
    user_hash: bool = False
    edition: int = 0
    shares: "Org | None" = None


class Org(msgspec.Struct, frozen=True, kw_only=True):
    """What all keys of an organisation share."""

    name: str
    limits: Limits = NO_LIMITS
    per_model: Mapping[str, Limits] = {}
    budget: Budget | None = None


class TierTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a tier costs, which share of a deployment it may fill (1.0 is all of it), how long it waits (0 is not at all)."""

    price: float = 1.0
    headroom: float = 1.0
    queue_s: float = 0.0


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot of the configuration. `names` has the model of every public name and alias, `keys` are by digest."""

    models: Mapping[str, Model]
    names: Mapping[str, Model]
    orgs: Mapping[str, Org]
    keys: Mapping[bytes, Key]
    tiers: Mapping[Tier, TierTerms]
    fallback: Fallback
    breaker: Breaker = USUAL_BREAKER
    prefixes: Mapping[str, Contract] = msgspec.field(default_factory=lambda: PREFIXES)
    """The contract of each route prefix."""
    hide_providers: bool = False
