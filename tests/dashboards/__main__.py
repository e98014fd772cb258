"""`python -m tests.dashboards PYTHON`: hold dashboards, rules and metrics to a running gateway and a real Prometheus.

PYTHON is one that has a parser of PromQL. Needs `promtool` and `prometheus`; exits 2, saying so, where they are missing, and 1
where something is not as it should be.
"""

import asyncio
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop
import yaml

from deploy.grafana import build
from gateway.telemetry.families import CATALOGUE
from tests.dashboards.load import FAULTS, OUTCOMES, REASONS, TIERS, TRACE_ID, Load, Watched, loaded
from tests.dashboards.scraping import RULES, Prometheus, prometheus
from tests.field.counting import Numbers, by_label, numbers
from tests.integration.processes.conditions import until

PROGRAMS = ("promtool", "prometheus")
LOAD_S = 30.0
ANSWER_S = 40.0
"""How long a query that has no answer yet is asked again, while the load goes on."""

VARIABLES = {"$__rate_interval": "20s", "$__range": "5m", "$tier": ".*", "$model": ".*", "$provider": ".*"}
SUFFIXES = ("_bucket", "_count", "_sum")
OF_PROMETHEUS = {"up"}
ALWAYS = {"job", "instance", "worker", "le"}


class Check(msgspec.Struct):
    """What was looked at, how much of it there was, and what was wrong."""

    name: str
    count: int
    wrong: list[str]


class Parsed(msgspec.Struct):
    """What `parsing.py` says of a query."""

    selectors: dict[str, list[str]]
    parts: list[str]


def rules() -> list[dict[str, Any]]:
    """Return every rule."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def asked_by_dashboards() -> list[str]:
    """Return every query of a dashboard, its variables replaced."""
    return [with_values(query.expr) for dashboard in build.ALL for query in build.queries(dashboard)]


def with_values(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


def parsed(python: str, queries: Sequence[str]) -> list[Parsed]:
    """Return what queries ask for. Raises CalledProcessError where one is none."""
    script = Path(__file__).parent / "parsing.py"
    done = subprocess.run([python, script], input=msgspec.json.encode(queries), stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=list[Parsed])


def told(program: str, *arguments: str, page: bytes = b"") -> list[str]:
    """Return what a program complains of."""
    done = subprocess.run([program, *arguments], input=page, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return [] if done.returncode == 0 else done.stdout.decode().splitlines()


def unknown(found: Iterable[Parsed], exported: set[str]) -> Iterator[str]:
    """Yield what queries ask for that no gateway exports, and labels that it does not have."""
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    labels = {family.name: ALWAYS | {*family.labels} for family in CATALOGUE}
    for query in found:
        for name, asked in query.selectors.items():
            family = next((name.removesuffix(end) for end in SUFFIXES if name.removesuffix(end) in labels), name)
            if name not in exported | recorded | OF_PROMETHEUS:
                yield f"{name} is not exported"
            elif family in labels and not {*asked} <= labels[family]:
                yield f"{name} has no label {', '.join({*asked} - labels[family])}"


async def unanswered(asked: Prometheus, queries: Sequence[str]) -> list[str]:
    """Return the queries without a number in their answers, after some patience."""
    left, give_up_s = [*dict.fromkeys(queries)], time.monotonic() + ANSWER_S
    while left and time.monotonic() < give_up_s:
        left = [query for query in left if not any(not math.isnan(value) for value in await asked.ask(query))]
        await asyncio.sleep(1.0)
    return left


def unmoved(found: Numbers) -> Iterator[str]:
    """Yield what the load should have met and did not."""
    for family, label, values in (
        ("tiergate_grants_total", "tier", TIERS),
        ("tiergate_rejections_total", "reason", REASONS),
        ("tiergate_requests_total", "outcome", OUTCOMES),
        ("tiergate_upstream_attempts_total", "outcome", ("ok", "cancelled", "connect", "tls", *FAULTS)),
        ("tiergate_stream_interruptions_total", "side", ("client", "upstream")),
    ):
        sums = by_label(found, family, label)
        yield from (f"{family}: no {label} {value}" for value in values if not sums.get(value))


async def run(python: str, directory: Path) -> list[Check]:
    """Return what all checks came to."""
    tools = [shutil.which(program) or program for program in PROGRAMS]
    promtool, server = tools
    deployed = RULES.parent
    checks = [
        Check("promtool check rules", len(rules()), told(promtool, "check", "rules", str(RULES))),
        Check("promtool check config", 1, told(promtool, "check", "config", str(deployed / "prometheus.yaml"))),
        Check("promtool test rules", 1, told(promtool, "test", "rules", str(deployed / "rules_test.yaml"))),
    ]
    panels, kept = asked_by_dashboards(), [str(rule["expr"]) for rule in rules()]
    of_panels, of_rules = parsed(python, panels), parsed(python, kept)
    checks.append(Check("queries parsed", len(of_panels) + len(of_rules), []))
    async with loaded(directory, workers=2) as gateway, prometheus(server, gateway.ops, directory) as asked:
        began_unix_s = time.time()
        load = asyncio.create_task(Load(gateway).rounds())
        try:
            await until(asked.scraped, within_s=30)
            await asyncio.wait([load], timeout=LOAD_S)
            checks += await measured(gateway, asked, of_panels, of_rules)
            alerts = [part for query in of_rules for part in query.parts]
            checks.append(Check("panels answered", len(panels), await unanswered(asked, panels)))
            checks.append(Check("rules answered", len(alerts), await unanswered(asked, alerts)))
            traced = await asked.exemplars("tiergate_request_duration_seconds_bucket", began_unix_s - 60)
            ids = {exemplar["labels"]["trace_id"] for exemplar in traced}
            checks.append(Check("exemplars kept", len(traced), [] if ids == {TRACE_ID} else [f"trace ids {ids}"]))
        finally:
            if load.done():
                load.result()
            load.cancel()
            await asyncio.wait([load])
    return checks


async def measured(gateway: Watched, asked: Prometheus, of_panels: Sequence[Parsed], of_rules: Sequence[Parsed]) -> list[Check]:
    """Return what was made of the gateway's own page."""
    page = await gateway.page()
    exported = {re.split(r"[{ ]", line)[0] for line in page.splitlines() if not line.startswith("#")}
    known = {f"{family.name}{end}" for family in CATALOGUE for end in (SUFFIXES if family.kind == "histogram" else ("",))}
    silent = [f"{name} was not exported" for name in sorted(known - exported)]
    return [
        Check("promtool check metrics", len(page.splitlines()), told("promtool", "check", "metrics", page=page.encode())),
        Check("metrics of the catalogue exported", len(CATALOGUE), silent),
        Check("tiers, refusals and faults met", len(TIERS) + len(REASONS) + len(FAULTS) + 2, [*unmoved(numbers(page))]),
        Check("metrics and labels asked for", len(of_panels) + len(of_rules), [*unknown((*of_panels, *of_rules), exported)]),
    ]


def main() -> int:
    """Run all checks and print them. Return the exit code."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        print(f"{' and '.join(missing)} not found: Debian has both in its package `prometheus` (apt-get install prometheus)")
        return 2
    with tempfile.TemporaryDirectory() as directory:
        checks = uvloop.run(run(sys.argv[1], Path(directory)))
    for check in checks:
        print(f"{'FAILED' if check.wrong else 'ok':8}{check.name:36}{check.count:6}")
        for line in check.wrong:
            print(f"        {line}")
    return int(any(check.wrong for check in checks))


if __name__ == "__main__":
    sys.exit(main())
