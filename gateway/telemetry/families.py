"""The catalogue: every metric that a gateway exports, its type, its help and its labels. Exposition and documents are made of it.

`worker` stands before these labels on all but what is told once for the whole gateway. Seconds, tokens, bytes and USD.
"""

from typing import Literal

import msgspec


class Family(msgspec.Struct, frozen=True):
    """One metric; `whole` marks what is told once for all workers, by whoever runs them."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    whole: bool = False


REQUESTS = Family("tiergate_requests_total", "counter", "Requests that ended.", ("route", "tier", "outcome", "stream"))
DURATION = Family(
    "tiergate_request_duration_seconds", "histogram", "From receipt to the end of a request.", ("route", "tier", "outcome")
)
FIRST_BYTE = Family(
    "tiergate_time_to_first_byte_seconds",
    "histogram",
    "From receipt to the first content; streams only.",
    ("route", "tier", "model"),
)
OVERHEAD = Family(
    "tiergate_overhead_seconds",
    "histogram",
    "From receipt to the first call to an upstream, queues left out; a slow client's body counts.",
    ("route",),
)
INFLIGHT = Family("tiergate_inflight_requests", "gauge", "Requests under way.", ("tier", "stream"))
REJECTIONS = Family("tiergate_rejections_total", "counter", "Requests refused before admission.", ("tier", "reason"))
SHADOW_REJECTIONS = Family(
    "tiergate_shadow_rejections_total", "counter", "Requests that a shadow limit would have refused.", ("scope", "dimension")
)
LIMIT_REFUSALS = Family(
    "tiergate_limit_refusals_total",
    "counter",
    "Requests that some limit had no room for, refused or served elsewhere; by whose limit it is.",
    ("scope", "dimension"),
)

GRANTS = Family("tiergate_grants_total", "counter", "Requests that an upstream was asked for.", ("model", "tier"))
DOWNGRADES = Family(
    "tiergate_downgrades_total", "counter", "Requests served at a lower tier than they named.", ("from_tier", "to_tier")
)
OVER_LIMIT = Family("tiergate_over_limit_served_total", "counter", "Requests served over their limits.", ("model",))
QUEUE_DEPTH = Family("tiergate_queue_depth", "gauge", "Requests that wait for a busy model.", ("model", "tier"))
QUEUE_WAIT = Family(
    "tiergate_queue_wait_seconds", "histogram", "In the queue of a busy model, of requests that waited.", ("tier", "outcome")
)

ATTEMPTS = Family(
    "tiergate_upstream_attempts_total",
    "counter",
    "Calls to upstreams that were sent.",
    ("provider", "model", "outcome", "attempt"),
)
ATTEMPT_DURATION = Family(
    "tiergate_upstream_attempt_duration_seconds",
    "histogram",
    "One call to an upstream, to the end of its answer.",
    ("provider", "model"),
)
FALLBACKS = Family("tiergate_fallbacks_total", "counter", "Moves to another model.", ("from_model", "to_model", "reason"))
UPSTREAM_INFLIGHT = Family(
    "tiergate_upstream_inflight_requests", "gauge", "Slots of deployments that requests hold.", ("provider", "model")
)
UPSTREAM_AVAILABLE = Family(
    "tiergate_upstream_available", "gauge", "1 where some deployment may be asked.", ("provider", "model"), whole=True
)
UPSTREAM_COOLDOWN = Family(
    "tiergate_upstream_cooldown_seconds",
    "gauge",
    "For how long the deployment is still left alone.",
    ("provider", "model"),
    whole=True,
)
UPSTREAM_LIMIT = Family(
    "tiergate_upstream_concurrency_limit",
    "gauge",
    "How many requests may run there now; none where nothing bounds them.",
    ("provider", "model"),
    whole=True,
)
UPSTREAM_DECLARED = Family(
    "tiergate_upstream_concurrency_declared",
    "gauge",
    "How many the configuration lets run there.",
    ("provider", "model"),
    whole=True,
)
BREAKER = Family(
    "tiergate_upstream_breaker_state",
    "gauge",
    "Deployments whose breaker is in this state.",
    ("provider", "model", "state"),
    whole=True,
)
INTERRUPTIONS = Family("tiergate_stream_interruptions_total", "counter", "Streams that broke after content.", ("side",))
STRANGE_EVENTS = Family(
    "tiergate_stream_events_dropped_total",
    "counter",
    "Events of streams that were no chunk, and were left out.",
    ("provider", "model"),
)

TOKENS = Family(
    "tiergate_tokens_total",
    "counter",
    "Tokens of answers; input includes cached, output includes reasoning.",
    ("tier", "model", "kind"),
)
COST = Family("tiergate_cost_usd_total", "counter", "What orgs were charged.", ("tier", "provider"))
OWN_COST = Family("tiergate_own_cost_usd_total", "counter", "What providers charge the operator.", ("tier", "provider"))
BUDGET_ALERTS = Family("tiergate_budget_alerts_total", "counter", "Budgets that came to their alert.", ("scope",))
ORG_COST = Family("tiergate_org_cost_usd_total", "counter", "What an org of the configuration was charged.", ("org",))
ORG_REJECTIONS = Family(
    "tiergate_org_rejections_total", "counter", "Requests refused to an org of the configuration.", ("org", "reason")
)
ORG_BUDGET = Family(
    "tiergate_org_budget_used_ratio",
    "gauge",
    "Share of a budget that is spent in its period, as this worker last heard.",
    ("org", "period", "unit"),
)

USAGE_LENGTH = Family("tiergate_usage_stream_length", "gauge", "Ledger events not yet stored.")
USAGE_PENDING = Family("tiergate_usage_stream_pending", "gauge", "Of these, in the consumer's hands.")
USAGE_AGE = Family("tiergate_usage_stream_oldest_age_seconds", "gauge", "Age of the oldest ledger event not yet stored.")
USAGE_STORED = Family("tiergate_usage_stored_total", "counter", "Ledger events stored.")
USAGE_DEAD = Family("tiergate_usage_dead_total", "counter", "Ledger events that can never be stored.")
SPOOL = Family("tiergate_usage_spool_bytes", "gauge", "On disk because Redis has not heard of it.")
TRACES_DROPPED = Family("tiergate_traces_dropped_total", "counter", "Traces of requests that were not stored.")
SPANS_EXPORTED = Family("tiergate_spans_exported_total", "counter", "Spans that the collector took.")
SPANS_DROPPED = Family("tiergate_spans_dropped_total", "counter", "Spans that found no room, or that the collector did not take.")
REDIS_UP = Family("tiergate_redis_up", "gauge", "Whether Redis is asked; 0 while this worker serves without it.")
REDIS_DURATION = Family("tiergate_redis_op_duration_seconds", "histogram", "Calls to Redis that were answered.", ("op",))
REDIS_ERRORS = Family("tiergate_redis_errors_total", "counter", "Calls to Redis that failed.", ("op",))

GENERATION = Family("tiergate_config_generation", "gauge", "Which reading of the configuration is in force.", whole=True)
WORKERS_BEHIND = Family("tiergate_config_workers_behind", "gauge", "Workers that are on an earlier one.", whole=True)
RELOAD_OK = Family(
    "tiergate_config_last_reload_successful", "gauge", "Whether the configuration was good when it was last read.", whole=True
)
RELOADED = Family(
    "tiergate_config_last_reload_success_timestamp_seconds", "gauge", "When a good configuration was last read.", whole=True
)
BUILD = Family("tiergate_build_info", "gauge", "What runs.", ("version",))
STARTED = Family("tiergate_start_time_seconds", "gauge", "When this worker started.")
WORKER_UP = Family("tiergate_worker_up", "gauge", "Whether the worker answered.")

OF_GEN_AI = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")

TOKEN_USAGE = Family(
    "gen_ai_client_token_usage", "histogram", "Tokens of one request, of those billed.", (*OF_GEN_AI, "gen_ai_token_type")
)
CLIENT_DURATION = Family(
    "gen_ai_client_operation_duration_seconds",
    "histogram",
    "One call to an upstream, to the end of its answer.",
    (*OF_GEN_AI, "error_type"),
)
FIRST_CHUNK = Family(
    "gen_ai_client_operation_time_to_first_chunk_seconds",
    "histogram",
    "From a call to an upstream to its first content; streams only.",
    OF_GEN_AI,
)
SERVER_DURATION = Family(
    "gen_ai_server_request_duration_seconds",
    "histogram",
    "From receipt to the end of a request that an upstream was asked for.",
    (*OF_GEN_AI, "error_type"),
)
FIRST_TOKEN = Family(
    "gen_ai_server_time_to_first_token_seconds",
    "histogram",
    "From receipt to the first content; streams only.",
    OF_GEN_AI,
)
NEXT_TOKEN = Family(
    "gen_ai_server_time_per_output_token_seconds",
    "histogram",
    "From the first content to the end, by output token after the first; whole streams only.",
    OF_GEN_AI,
)

CATALOGUE = tuple(found for found in (*vars().values(),) if isinstance(found, Family))
"""Every family of this page."""
