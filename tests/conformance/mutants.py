"""`python -m tests.conformance.mutants [--rows DIR]`: faults made on purpose in the gateway turn rows of the contract to FAIL.

Each names the rows that have to find it; they pass where nothing is wrong. Prints a line a fault; exits 1 where one is not found.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from tests.conformance.__main__ import DEFAULT_ROWS
from tests.mutant import ROOT, Mutant, run_in


class Fault(Mutant, frozen=True):
    """One fault and the rows that have to find it."""

    rows: tuple[str, ...]


FAULTS = (
    Fault(
        "a bound off by one",
        "gateway/wire/fields.py",
        '"logprobs": flag,\n    "top_logprobs": integer(0, 20),',
        '"logprobs": flag,\n    "top_logprobs": integer(0, 21),',
        ("s001.chat.top_logprobs.above",),
    ),
    Fault(
        "a field that is not passed on",
        "gateway/providers/openai.py",
        'NEVER_SENT = frozenset({"api_key",',
        'NEVER_SENT = frozenset({"seed", "api_key",',
        ("oai.chat.seed.big", "s003.seed.2_63", "printed.seed003.without_models.v1"),
    ),
    Fault(
        "an output bound under the client's name for it",
        "gateway/providers/openai.py",
        "name = wanted or (",
        "name = (",
        ("s001.chat.max_completion_tokens.renamed", "s001.chat.max_tokens.renamed"),
    ),
    Fault(
        "usage that nobody asked for",
        "gateway/providers/openai_stream.py",
        "if self.usage is not None and self._edits.show_usage:",
        "if self.usage is not None:",
        (
            "d32.v1.chat.stream.usage_not_asked",
            "d32.nebius.completions.stream_options.empty",
            "stream.chat.deepinfra_prefix.usage_on_finish_kept",
        ),
    ),
    Fault(
        "a stream without an end mark",
        "gateway/providers/openai_stream.py",
        'self._out.append(b"data: [DONE]\\n\\n")',
        "pass",
        ("d18.walk.role_then_error", "d32.v1.chat.stream.usage_not_asked"),
    ),
    Fault(
        "bad fields without detail",
        "gateway/wire/envelope.py",
        "    if bad or with_detail:",
        "    if with_detail:",
        ("body.chat.empty_object", "d30.all_bad_fields", "body.chat.top_null"),
    ),
    Fault(
        "the first bad field alone",
        "gateway/wire/request.py",
        "raise Unprocessable((*more, *wrong))",
        "raise Unprocessable((*more, *wrong)[:1])",
        ("d30.all_bad_fields", "d30.missing_and_bad"),
    ),
    Fault(
        "a wait that is not told",
        "gateway/wire/envelope.py",
        "    if error.retry_after_ms is not None:",
        "    if error.retry_after_ms is not None and error is None:",
        ("upstream.429.hint", "upstream.429.engine_overloaded.stream"),
    ),
    Fault(
        "the provider's name for the model",
        "gateway/providers/editing.py",
        '{"model": encode(edits.model),',
        '{"model": encode(edits.upstream_model),',
        ("answer.chat.model_public", "d17.duo.failover"),
    ),
    Fault(
        "the gateway's account blamed on the client",
        "gateway/errors.py",
        '502, "upstream_error", "upstream_auth_error"',
        '401, "upstream_error", "upstream_auth_error"',
        ("upstream.401.openai", "upstream.401.stream", "upstream.403"),
    ),
    Fault(
        "a tier that is not told",
        "gateway/providers/editing.py",
        "None if edits.tier is None else encode(tier)",
        "None",
        ("d32.v1.chat.absent", "d32.deepinfra.completions.auto"),
    ),
)


async def run_rows(tree: Path, rows: Path, only: tuple[str, ...]) -> set[str]:
    """Return which of these rows fail on these sources. Raises ValueError where one of them did not run."""
    code, lines = await run_in(tree, "tests.conformance", "--rows", str(rows), "--only", *only)
    told = {line.split()[1].rstrip(":"): line.startswith("FAIL") for line in lines if line.startswith(("PASS ", "FAIL "))}
    if missing := set(only) - told.keys():
        raise ValueError(f"no such rows, or none that ran: {', '.join(sorted(missing))} ({code}, {lines[-1]})")
    return {row for row, failed in told.items() if failed and row in only}


async def main() -> int:
    """Run what the command line asks for. Return the exit code."""
    options = argparse.ArgumentParser(prog="python -m tests.conformance.mutants", description=__doc__)
    options.add_argument("--rows", type=Path, default=DEFAULT_ROWS, metavar="DIR", help="where the rows are")
    rows = options.parse_args().rows.resolve()
    wrong = await run_rows(ROOT, rows, tuple(sorted({row for fault in FAULTS for row in fault.rows})))
    print(f"without a fault: {len(wrong)} of these rows fail {', '.join(sorted(wrong))}".rstrip())
    found = 0
    for fault in FAULTS:
        with fault.tree() as tree:
            failed = await run_rows(tree, rows, fault.rows)
        found += failed == set(fault.rows)
        print(f"  {fault.name:<48} {'found by ' + ', '.join(sorted(failed)) if failed else 'NOT FOUND'}", flush=True)
    print(f"faults: {len(FAULTS)} made, {found} found by every row that has to")
    return 0 if found == len(FAULTS) and not wrong else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
