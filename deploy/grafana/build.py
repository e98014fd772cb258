"""`python -m deploy.grafana.build`: write the dashboards, and the table of metrics in deploy/prometheus/README.md.

What a panel asks is written here, once; how dashboards look alike is written once too. Queries name Grafana's own variables:
`$__rate_interval`, `$__range`, and the four below. A file that is up to date is left alone.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gateway.telemetry.families import CATALOGUE, Family

ROOT = Path(__file__).parents[2]
DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"
README = ROOT / "deploy" / "prometheus" / "README.md"
BEGIN, END = "<!-- metrics -->\n", "<!-- end -->\n"

SCHEMA_VERSION = 39
COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

VARIABLES = {
    "tier": "label_values(tiergate_requests_total, tier)",
    "model": "label_values(tiergate_grants_total, model)",
    "provider": "label_values(tiergate_upstream_attempts_total, provider)",
}


class Query(NamedTuple):
    """What is asked, and how an answer's series are called."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """One panel: `kind` is Grafana's, `unit` too."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""
    width: int = 12
    height: int = 8
    stacked: bool = False
    signed: bool = False
    """Whether it may be below zero."""


class Row(NamedTuple):
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(NamedTuple):
    """One page; `name` is its file's, and its uid's behind `tiergate-`."""

    name: str
    title: str
    about: str
    rows: tuple[Row, ...]


def rate(metric: str, by: str, where: str = "") -> str:
    """Return the rate of a counter by these labels, over all workers and gateways."""
    return f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))"


def quantile(share: float, metric: str, by: str, where: str = "") -> str:
    """Return a quantile of a histogram by these labels."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({labels}) (rate({metric}_bucket{{{where}}}[$__rate_interval])))"


def quantiles(metric: str, by: str, where: str = "", shares: Sequence[float] = (0.5, 0.95)) -> tuple[Query, ...]:
    """Return some quantiles of a histogram."""
    legend = " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(",") if by)
    return tuple(Query(quantile(share, metric, by, where), f"p{100 * share:g} {legend}".strip()) for share in shares)


def one(expr: str, legend: str = "") -> tuple[Query, ...]:
    """Return one query."""
    return (Query(expr, legend),)


def stat(title: str, expr: str, unit: str = "short", about: str = "") -> Panel:
    """Return a number."""
    return Panel(title, one(expr), unit, "stat", about, width=4, height=4)


TIER, MODEL = 'tier=~"$tier"', 'model=~"$model"'
PROVIDER = f'provider=~"$provider",{MODEL}'
GEN_AI = 'gen_ai_provider_name=~"$provider",gen_ai_request_model=~"$model"'
FAILED = "upstream_error|timeout|interrupted"

OVERVIEW = Dashboard(
    "overview",
    "Tiergate: overview",
    "Rate, errors, duration, and whether the gateways themselves are well.",
    (
        Row(
            "Now",
            (
                stat("Requests a second", f"sum(rate(tiergate_requests_total{{{TIER}}}[$__rate_interval]))", "reqps"),
                stat("Under way", f"sum(tiergate_inflight_requests{{{TIER}}})"),
                stat(
                    "Failed",
                    f'sum(rate(tiergate_requests_total{{outcome=~"{FAILED}",{TIER}}}[$__rate_interval]))'
                    f" / sum(rate(tiergate_requests_total{{{TIER}}}[$__rate_interval]))",
                    "percentunit",
                    "Upstream errors, timeouts and broken streams, of all requests.",
                ),
                stat("First content, p95", quantile(0.95, "tiergate_time_to_first_byte_seconds", "", TIER), "s"),
                stat("Spend an hour", "3600 * sum(rate(tiergate_cost_usd_total[$__rate_interval]))", "currencyUSD"),
                stat("Workers up", "sum(tiergate_worker_up)"),
            ),
        ),
        Row(
            "Requests",
            (
                Panel("By outcome", one(rate("tiergate_requests_total", "outcome", TIER), "{{outcome}}"), "reqps", stacked=True),
                Panel("By tier", one(rate("tiergate_requests_total", "tier", TIER), "{{tier}}"), "reqps", stacked=True),
                Panel("By route", one(rate("tiergate_requests_total", "route", TIER), "{{route}}"), "reqps", stacked=True),
                Panel(
                    "Under way",
                    one(f"sum by (tier, stream) (tiergate_inflight_requests{{{TIER}}})", "{{tier}} stream={{stream}}"),
                ),
                Panel(
                    "Duration of good ones", quantiles("tiergate_request_duration_seconds", "tier", f'outcome="ok",{TIER}'), "s"
                ),
                Panel(
                    "First content",
                    quantiles("tiergate_time_to_first_byte_seconds", "tier", TIER),
                    "s",
                    about="From receipt, queue included; streams only.",
                ),
                Panel(
                    "Refused",
                    one(rate("tiergate_rejections_total", "reason", TIER) + " > 0", "{{reason}}"),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Own time before a call",
                    quantiles("tiergate_overhead_seconds", "", shares=(0.5, 0.99)),
                    "s",
                    about="Queues left out; a slow client's body counts.",
                ),
            ),
        ),
        Row(
            "Promises",
            (
                Panel(
                    "Availability: how fast its allowance burns",
                    (
                        Query("tiergate:availability_errors:ratio_rate1h / 0.005", "1 h {{tier}}"),
                        Query("tiergate:availability_errors:ratio_rate6h / 0.005", "6 h {{tier}}"),
                    ),
                    about="1 uses a month's allowance in a month.",
                ),
                Panel(
                    "First token: how fast its allowance burns",
                    (
                        Query("tiergate:first_token_late:ratio_rate1h / 0.05", "1 h {{tier}}"),
                        Query("tiergate:first_token_late:ratio_rate6h / 0.05", "6 h {{tier}}"),
                    ),
                    about="1 uses a month's allowance in a month.",
                ),
            ),
        ),
        Row(
            "Gateways",
            (
                Panel(
                    "CPU",
                    one("sum without (worker) (rate(process_cpu_seconds_total[$__rate_interval]))", "{{instance}}"),
                    "percentunit",
                ),
                Panel("Memory", one("sum without (worker) (process_resident_memory_bytes)", "{{instance}}"), "bytes"),
                Panel("Workers that answer", one("sum without (worker) (tiergate_worker_up)", "{{instance}}")),
                Panel(
                    "Age of workers",
                    one("time() - min without (worker) (tiergate_start_time_seconds)", "{{instance}}"),
                    "s",
                ),
                Panel("Releases", one("count by (version) (tiergate_build_info)", "{{version}}")),
                Panel(
                    "Configuration",
                    (
                        Query("min by (instance) (tiergate_config_last_reload_successful)", "good {{instance}}"),
                        Query("time() - max(tiergate_config_last_reload_success_timestamp_seconds)", "read, seconds ago"),
                        Query("tiergate_config_generation", "generation {{instance}}"),
                        Query("tiergate_config_workers_behind", "workers behind {{instance}}"),
                    ),
                ),
            ),
        ),
    ),
)

TIERS = Dashboard(
    "tiers-and-queue",
    "Tiergate: tiers and queue",
    "What each tier was given, and who waited for it.",
    (
        Row(
            "Service",
            (
                Panel(
                    "Granted", one(rate("tiergate_grants_total", "tier", f"{TIER},{MODEL}"), "{{tier}}"), "reqps", stacked=True
                ),
                Panel("Granted, by model", one(rate("tiergate_grants_total", "model", f"{TIER},{MODEL}"), "{{model}}"), "reqps"),
                Panel(
                    "Served lower than named",
                    one(rate("tiergate_downgrades_total", "from_tier, to_tier"), "{{from_tier}} to {{to_tier}}"),
                    "reqps",
                ),
                Panel(
                    "Served over the limit", one(rate("tiergate_over_limit_served_total", "model", MODEL), "{{model}}"), "reqps"
                ),
                Panel("First content", quantiles("tiergate_time_to_first_byte_seconds", "tier", f"{TIER},{MODEL}"), "s"),
                Panel("First content late", one("tiergate:first_token_late:ratio_rate5m", "{{tier}}"), "percentunit"),
            ),
        ),
        Row(
            "Queue",
            (
                Panel("Waiting", one(f"sum by (model, tier) (tiergate_queue_depth{{{TIER},{MODEL}}})", "{{model}} {{tier}}")),
                Panel("Wait", quantiles("tiergate_queue_wait_seconds", "tier", TIER, (0.5, 0.9)), "s"),
                Panel(
                    "Ends of those that waited",
                    one(rate("tiergate_queue_wait_seconds_count", "tier, outcome", TIER), "{{tier}} {{outcome}}"),
                    "reqps",
                ),
                Panel("Wait, p90 of five minutes", one("tiergate:queue_wait_seconds:p90_5m", "{{tier}}"), "s"),
                Panel(
                    "Refused for want of room",
                    one(
                        rate("tiergate_rejections_total", "tier, reason", f'reason=~"engine_overloaded|flex_no_capacity",{TIER}'),
                        "{{tier}} {{reason}}",
                    ),
                    "reqps",
                ),
                Panel("The same, of all requests", one("tiergate:capacity_refusals:ratio_rate5m", "{{tier}}"), "percentunit"),
            ),
        ),
    ),
)

LIMITS = Dashboard(
    "limits-and-budgets",
    "Tiergate: limits and budgets",
    "What refused whom: rates, slots and money.",
    (
        Row(
            "Limits",
            (
                Panel(
                    "Limits that had no room",
                    one(rate("tiergate_limit_refusals_total", "scope, dimension") + " > 0", "{{scope}} {{dimension}}"),
                    "reqps",
                    about="Whether the request was refused or served elsewhere.",
                ),
                Panel(
                    "Shadow limits would have refused",
                    one(rate("tiergate_shadow_rejections_total", "scope, dimension") + " > 0", "{{scope}} {{dimension}}"),
                    "reqps",
                    about="Limits with `shadow: true` are counted and refuse nothing.",
                ),
                Panel("Refused, by tier", one(rate("tiergate_rejections_total", "tier", TIER), "{{tier}}"), "reqps"),
                Panel(
                    "Refused by a limit",
                    one(
                        rate(
                            "tiergate_rejections_total",
                            "tier, reason",
                            f'reason=~"rate_limit_exceeded|insufficient_quota",{TIER}',
                        ),
                        "{{tier}} {{reason}}",
                    ),
                    "reqps",
                ),
                Panel(
                    "Orgs that were refused most",
                    one("topk(10, " + rate("tiergate_org_rejections_total", "org, reason") + ")", "{{org}} {{reason}}"),
                    "reqps",
                ),
            ),
        ),
        Row(
            "Money",
            (
                Panel(
                    "Budgets of orgs",
                    one("max by (org, period, unit) (tiergate_org_budget_used_ratio)", "{{org}} {{period}} {{unit}}"),
                    "percentunit",
                    about="Spent of the present period, as workers last heard.",
                ),
                Panel(
                    "Budgets that came to their alert",
                    one("sum by (scope) (increase(tiergate_budget_alerts_total[$__range]))", "{{scope}}"),
                ),
                Panel(
                    "Orgs that spend most, an hour",
                    one("topk(10, 3600 * " + rate("tiergate_org_cost_usd_total", "org") + ")", "{{org}}"),
                    "currencyUSD",
                ),
                Panel(
                    "Spent in this time",
                    one("sum by (org) (increase(tiergate_org_cost_usd_total[$__range]))", "{{org}}"),
                    "currencyUSD",
                    "bargauge",
                ),
            ),
        ),
    ),
)

UPSTREAMS = Dashboard(
    "upstreams-and-fallbacks",
    "Tiergate: upstreams and fallbacks",
    "How providers do, and what was done about it.",
    (
        Row(
            "Calls",
            (
                Panel(
                    "By end",
                    one(rate("tiergate_upstream_attempts_total", "outcome", PROVIDER) + " > 0", "{{outcome}}"),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Failed, by provider",
                    one(
                        "("
                        + rate("tiergate_upstream_attempts_total", "provider", f'outcome!~"ok|cancelled",{PROVIDER}')
                        + ") / "
                        + rate("tiergate_upstream_attempts_total", "provider", PROVIDER),
                        "{{provider}}",
                    ),
                    "percentunit",
                ),
                Panel(
                    "First, second and later calls",
                    one(rate("tiergate_upstream_attempts_total", "attempt", PROVIDER), "{{attempt}}"),
                    "reqps",
                ),
                Panel("Duration", quantiles("tiergate_upstream_attempt_duration_seconds", "provider", PROVIDER), "s"),
                Panel(
                    "First chunk",
                    quantiles("gen_ai_client_operation_time_to_first_chunk_seconds", "gen_ai_provider_name", GEN_AI),
                    "s",
                ),
                Panel(
                    "Duration, by error",
                    quantiles("gen_ai_client_operation_duration_seconds", "gen_ai_provider_name, error_type", GEN_AI, (0.95,)),
                    "s",
                ),
            ),
        ),
        Row(
            "Deployments",
            (
                Panel(
                    "May be asked",
                    one(f"min by (provider, model) (tiergate_upstream_available{{{PROVIDER}}})", "{{provider}} {{model}}"),
                ),
                Panel(
                    "Breakers",
                    one(
                        f"max by (provider, model, state) (tiergate_upstream_breaker_state{{{PROVIDER}}}) > 0",
                        "{{provider}} {{model}} {{state}}",
                    ),
                ),
                Panel(
                    "Left alone for",
                    one(f"max by (provider, model) (tiergate_upstream_cooldown_seconds{{{PROVIDER}}})", "{{provider}} {{model}}"),
                    "s",
                ),
                Panel(
                    "Slots",
                    (
                        Query(f"tiergate:upstream_inflight:sum{{{PROVIDER}}}", "{{provider}} {{model}} in use"),
                        Query(
                            f"max by (provider, model) (tiergate_upstream_concurrency_limit{{{PROVIDER}}})",
                            "{{provider}} {{model}} limit",
                        ),
                        Query(
                            f"max by (provider, model) (tiergate_upstream_concurrency_declared{{{PROVIDER}}})",
                            "{{provider}} {{model}} declared",
                        ),
                    ),
                ),
                Panel(
                    "Headroom", one(f"tiergate:upstream_headroom:ratio{{{PROVIDER}}}", "{{provider}} {{model}}"), "percentunit"
                ),
                Panel(
                    "Slots in use, by gateway",
                    one(
                        f"sum without (worker) (tiergate_upstream_inflight_requests{{{PROVIDER}}})",
                        "{{instance}} {{provider}} {{model}}",
                    ),
                ),
            ),
        ),
        Row(
            "What came of it",
            (
                Panel(
                    "Moves to another model",
                    one(
                        rate("tiergate_fallbacks_total", "from_model, to_model, reason"),
                        "{{from_model}} to {{to_model}}: {{reason}}",
                    ),
                    "reqps",
                ),
                Panel("Streams that broke", one(rate("tiergate_stream_interruptions_total", "side"), "{{side}}"), "reqps"),
                Panel(
                    "Events that were no chunk",
                    one(rate("tiergate_stream_events_dropped_total", "provider, model", PROVIDER), "{{provider}} {{model}}"),
                ),
                Panel(
                    "Requests, by error",
                    one(rate("gen_ai_server_request_duration_seconds_count", "error_type", GEN_AI), "{{error_type}}"),
                    "reqps",
                ),
            ),
        ),
    ),
)

TOKENS = Dashboard(
    "tokens-and-cost",
    "Tiergate: tokens and cost",
    "What was used, what it cost whom, and how fast it came.",
    (
        Row(
            "Tokens",
            (
                Panel("By kind", one(rate("tiergate_tokens_total", "kind", f"{TIER},{MODEL}"), "{{kind}}")),
                Panel(
                    "By model",
                    one(rate("tiergate_tokens_total", "model", f'kind=~"input|output",{TIER},{MODEL}'), "{{model}}"),
                    stacked=True,
                ),
                Panel(
                    "Of the input, cached",
                    one(
                        rate("tiergate_tokens_total", "model", f'kind="cached",{TIER},{MODEL}')
                        + " / ("
                        + rate("tiergate_tokens_total", "model", f'kind="input",{TIER},{MODEL}')
                        + " > 0)",
                        "{{model}}",
                    ),
                    "percentunit",
                ),
                Panel("Of one request", quantiles("gen_ai_client_token_usage", "gen_ai_token_type", GEN_AI)),
            ),
        ),
        Row(
            "Money, an hour",
            (
                Panel(
                    "Charged, by tier",
                    one("3600 * " + rate("tiergate_cost_usd_total", "tier", TIER), "{{tier}}"),
                    "currencyUSD",
                    stacked=True,
                ),
                Panel(
                    "Charged, by provider",
                    one("3600 * " + rate("tiergate_cost_usd_total", "provider", TIER), "{{provider}}"),
                    "currencyUSD",
                    stacked=True,
                ),
                Panel(
                    "Paid, by provider",
                    one("3600 * " + rate("tiergate_own_cost_usd_total", "provider", TIER), "{{provider}}"),
                    "currencyUSD",
                ),
                Panel(
                    "Charged less paid",
                    one(
                        "3600 * ("
                        + rate("tiergate_cost_usd_total", "tier", TIER)
                        + " - "
                        + rate("tiergate_own_cost_usd_total", "tier", TIER)
                        + ")",
                        "{{tier}}",
                    ),
                    "currencyUSD",
                    signed=True,
                ),
            ),
        ),
        Row(
            "Speed",
            (
                Panel("First token", quantiles("gen_ai_server_time_to_first_token_seconds", "gen_ai_request_model", GEN_AI), "s"),
                Panel(
                    "Each token after it",
                    quantiles("gen_ai_server_time_per_output_token_seconds", "gen_ai_request_model", GEN_AI),
                    "s",
                ),
                Panel(
                    "Whole requests", quantiles("gen_ai_server_request_duration_seconds", "gen_ai_operation_name", GEN_AI), "s"
                ),
            ),
        ),
    ),
)

STORES = Dashboard(
    "ledger-and-redis",
    "Tiergate: ledger and Redis",
    "Whether all that happens is written down, and how the store answers.",
    (
        Row(
            "Ledger",
            (
                Panel(
                    "Not yet stored",
                    (
                        Query("max(tiergate_usage_stream_length)", "events"),
                        Query("max(tiergate_usage_stream_pending)", "in hand"),
                    ),
                ),
                Panel("Age of the oldest", one("max(tiergate_usage_stream_oldest_age_seconds)", "age"), "s"),
                Panel("Stored", one("sum(rate(tiergate_usage_stored_total[$__rate_interval]))", "events a second")),
                Panel("Can never be stored", one("sum(increase(tiergate_usage_dead_total[$__range]))", "events")),
                Panel("Only on disk", one("sum without (worker) (tiergate_usage_spool_bytes)", "{{instance}}"), "bytes"),
                Panel(
                    "Traces and spans",
                    (
                        Query("sum(rate(tiergate_traces_dropped_total[$__rate_interval]))", "traces dropped"),
                        Query("sum(rate(tiergate_spans_exported_total[$__rate_interval]))", "spans exported"),
                        Query("sum(rate(tiergate_spans_dropped_total[$__rate_interval]))", "spans dropped"),
                    ),
                ),
            ),
        ),
        Row(
            "Redis",
            (
                Panel(
                    "Asked",
                    one("min without (worker) (tiergate_redis_up)", "{{instance}}"),
                    about="0 while a worker serves without it.",
                ),
                Panel("Calls", one(rate("tiergate_redis_op_duration_seconds_count", "op"), "{{op}}"), "ops"),
                Panel("Duration", quantiles("tiergate_redis_op_duration_seconds", "op", shares=(0.5, 0.99)), "s"),
                Panel("Failed", one(rate("tiergate_redis_errors_total", "op"), "{{op}}"), "ops"),
            ),
        ),
    ),
)

ALL = (OVERVIEW, TIERS, LIMITS, UPSTREAMS, TOKENS, STORES)


def queries(dashboard: Dashboard) -> Iterator[Query]:
    """Yield all that a dashboard asks."""
    for row in dashboard.rows:
        for panel in row.panels:
            yield from panel.queries


def rendered(dashboard: Dashboard) -> str:
    """Return a dashboard as Grafana reads it."""
    found = {
        "uid": f"tiergate-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["tiergate"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "links": [
            {
                "type": "dashboards",
                "tags": ["tiergate"],
                "asDropdown": True,
                "title": "Tiergate",
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "annotations": {"list": []},
        "templating": {"list": [*_variables()]},
        "panels": [*_panels(dashboard)],
    }
    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0}
    for name, query in VARIABLES.items():
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": query, "refId": "labels"},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in dashboard.rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": _place(0, top, COLUMNS, 1),
        }
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, height = top + height, 0, 0
            number += 1
            yield _panel(number, panel, _place(left, top, panel.width, panel.height))
            left, height = left + panel.width, max(height, panel.height)
        top += height


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit} if panel.signed else {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        defaults["custom"] = {
            "fillOpacity": 20 if panel.stacked else 5,
            "showPoints": "never",
            "stacking": stacking,
            "spanNulls": False,
        }
    options: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    if panel.kind == "timeseries":
        options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": DATASOURCE,
                "editorMode": "code",
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                "range": True,
                "exemplar": "_bucket" in query.expr,
            }
            for at, query in enumerate(panel.queries)
        ],
    }


def table() -> str:
    """Return the catalogue as a table of Markdown."""
    lines = ["| metric | type | labels | what it counts |", "|---|---|---|---|", *map(_line, CATALOGUE)]
    return "".join(f"{line}\n" for line in lines)


def _line(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels}{' *once*' if family.whole else ''} | {family.help} |"


def files() -> dict[Path, str]:
    """Return every file that is written, and what belongs into it."""
    found = {DASHBOARDS / f"{dashboard.name}.json": rendered(dashboard) for dashboard in ALL}
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    return {**found, README: f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"}


def main() -> None:
    """Write what is not up to date."""
    for path, text in files().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main()
