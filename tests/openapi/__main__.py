"""`python -m tests.openapi SCHEMATHESIS`: hold a running gateway to the documents that its two listeners serve.

The program of that name makes requests of the document, good ones and bad ones, for every operation; a scripted provider answers
all that reach it. No answer may be a 5xx or other than its schema says, no good request may be refused and no bad one served; of
all requests of the API, some thousands, three in ten have to be served. Of the operations port, whose definitions have more rules
than its document, no answer may be a 5xx or other than its schema says. Exits 1 where that is not so.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop

from tests.fakes.anthropic import Both
from tests.fakes.embeddings import embeds
from tests.fakes.http_server import Call, HttpServer, Script
from tests.fakes.responses import Answering
from tests.integration.ops.admin import ADMIN, post
from tests.openapi.common import MODEL, PROJECT, REPORT
from tests.running import HEADERS, config, running
from tests.valkey import Valkey

LEAST_SERVED = 0.3
FOR_ALL = ("--continue-on-failure", "--seed", "1", "--suppress-health-check", "all")
RUNS = (("--max-examples", "20"), ("--phases", "fuzzing", "--mode", "positive", "--max-examples", "140"))
"""Every phase, most of whose requests are bad on purpose; then good ones alone."""
OF_OPERATIONS = (
    *("--max-examples", "40", "--exclude-path", "/readyz", "--exclude-path", "/admin/live"),
    *("--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"),
)
"""No worker answers there: not to be ready is right. The live figures have no end."""
ENDPOINTS = ("chat", "completions", "embeddings", "responses")
HERE = Path(__file__).parent


class Everything(Answering, Both):
    """The models of one server that has every endpoint, by its path."""

    def usual(self, call: Call, body: Mapping[str, Any]) -> Script:
        """Return what a model does where a test says nothing."""
        return embeds("asked") if call.request.path.endswith("/embeddings") else super().usual(call, body)


async def hold(program: str) -> bool:
    """Run the program against a gateway. Return whether all was as the document says."""
    with Valkey() as valkey, tempfile.TemporaryDirectory() as directory:
        async with HttpServer(Everything()) as server:
            able = {"regex": True, "ignore_eos": True, "max_logprobs": 100, "stop": 128}
            deployments = [{"provider": name, "model": "up-m", "order": place} for place, name in enumerate(("p", "a"), 1)]
            models = {MODEL: {"deployments": deployments, "capabilities": able}}
            settings = config(dict.fromkeys(("p", "a"), server.base_url), models, telemetry={"level": "error"})
            settings["providers"]["p"] |= {"endpoints": ENDPOINTS, "allow_store": True}
            settings["orgs"]["acme"]["projects"] = {PROJECT: {}}
            # How many prompts one key may send at once, a document for all keys cannot say.
            settings["keys"][0] |= {"allow_no_limit": True, "max_prompts": 1_000}
            settings["providers"]["a"] |= {"dialect": "anthropic", "endpoints": ["chat"]}
            async with running(settings, valkey, Path(directory)) as run:
                report = Path(directory) / "served"
                environment = {
                    **os.environ,
                    "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"),
                    "PYTHONPATH": str(HERE.parents[1]),
                    REPORT: str(report),
                }
                arguments = ("run", f"{run.url}/openapi.json", "-H", f"Authorization: {HEADERS['authorization']}", *FOR_ALL)
                codes = []
                for options in RUNS:
                    child = await asyncio.create_subprocess_exec(program, *arguments, *options, env=environment)
                    codes.append(await child.wait())
                statuses = [int(line) for line in report.read_text().split()]
    served = sum(200 <= status < 300 for status in statuses)
    print(f"{len(statuses)} requests, {100 * served / len(statuses):.0f} % served")
    return not any(codes) and served >= LEAST_SERVED * len(statuses)


async def hold_operations(program: str) -> bool:
    """Run the program against an operations port. Return whether all was as the document says."""
    with Valkey() as valkey, tempfile.TemporaryDirectory() as directory:
        async with post(1, valkey, Path(directory)) as gate:
            arguments = ("run", f"{gate.url}/openapi/openapi.json", "-H", f"Authorization: Bearer {ADMIN}", *FOR_ALL)
            child = await asyncio.create_subprocess_exec(program, *arguments, *OF_OPERATIONS)
            return await child.wait() == 0


async def hold_all(program: str) -> bool:
    """Hold both."""
    return all([await hold(program), await hold_operations(program)])


def main() -> int:
    """Run what the command line asks for. Return the exit code."""
    return 0 if uvloop.run(hold_all(*sys.argv[1:])) else 1


if __name__ == "__main__":
    sys.exit(main())
