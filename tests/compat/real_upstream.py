"""Compare what a real OpenAI-compatible server answers with what arrives through the gateway, byte for byte.

Both are asked the same: temperature 0, one seed, no prompt cache. Two answers of one server differ in `id`, `created` and
`timings`; what the gateway edits is `model`, `service_tier`, `usage`. Usage is hidden unless asked for, then one chunk of its own
at the end of a stream, with an `estimated_cost`. All else has to be equal, and the ledger has to hold the server's own figures.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.compat.scenarios import SCHEMA, TOOL
from tests.running import Running, config, running
from tests.valkey import Valkey

PUBLIC = "public-name"
"""What clients of the gateway call the model."""

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
FIXED = {"temperature": 0, "seed": 7, "cache_prompt": False}
FORM = {"type": "json_schema", "json_schema": {"name": "choice", "schema": SCHEMA, "strict": True}}
SAY: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": 'Grüße, 世界! \U0001f44b "quoted" \\ \n'}]

Cases = tuple[tuple[str, str, dict[str, Any]], ...]
"""Each with a name, a path and the fields of its body."""

CASES: Cases = (
    ("chat", CHAT, {"messages": SAY, "max_tokens": 8}),
    ("chat, long", CHAT, {"messages": SAY, "max_tokens": 300}),
    ("chat, logprobs", CHAT, {"messages": SAY, "max_tokens": 8, "logprobs": True, "top_logprobs": 3}),
    ("chat, stop", CHAT, {"messages": SAY, "max_tokens": 60, "stop": ["e", "a"]}),
    ("chat, JSON", CHAT, {"messages": SAY, "max_tokens": 40, "response_format": {"type": "json_object"}}),
    ("chat, two choices", CHAT, {"messages": SAY, "max_tokens": 8, "n": 2}),
    ("completion", COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 8}),
    ("completion, long", COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 300}),
    ("completion, logprobs", COMPLETIONS, {"prompt": "Once", "max_tokens": 8, "logprobs": 3}),
    ("completion, token ids", COMPLETIONS, {"prompt": [72, 101, 108, 108, 111], "max_tokens": 8}),
    ("completion, two prompts", COMPLETIONS, {"prompt": ["Once", "Twice"], "max_tokens": 8}),
)
TOOLS: dict[str, Any] = {"messages": SAY, "tools": [TOOL], "max_tokens": 400}
CALLS: Cases = (
    ("chat, tools offered", CHAT, {**TOOLS, "max_tokens": 8}),
    ("chat, a tool called", CHAT, {**TOOLS, "tool_choice": "required", "parallel_tool_calls": False}),
    ("chat, a tool called on", CHAT, {**TOOLS, "tool_choice": "required"}),
    ("chat, an object", CHAT, {"messages": SAY, "max_tokens": 200, "response_format": FORM}),
)
"""What a model has to be eager to call tools for."""

MODES: dict[str, dict[str, Any]] = {
    "whole": {},
    "stream": {"stream": True},
    "stream, usage": {"stream": True, "stream_options": {"include_usage": True}},
}

OBJECT = rb"\{(?:[^{}]|\{[^{}]*\})*\}"
ITS_OWN = (
    (re.compile(rb'"id":"[^"]*"'), b'"id":_'),
    (re.compile(rb'"created":\d+'), b'"created":_'),
    (re.compile(rb',"timings":' + OBJECT), b""),
)
EDITED = (
    (re.compile(rb'"model":"(?:[^"\\]|\\.)*"'), b'"model":_'),
    (re.compile(rb',"service_tier":"[^"]*"'), b""),
    (re.compile(rb',"usage":(?:null|' + OBJECT + rb")"), b""),
)
USAGE = re.compile(rb'"usage":(' + OBJECT + rb")")
COST = re.compile(rb',"estimated_cost":[0-9.e+-]+')


class Answer(msgspec.Struct, frozen=True):
    """One answer, as its payloads: the body, or each `data:` line."""

    status: int
    payloads: tuple[bytes, ...]
    request_id: str

    @property
    def masked(self) -> tuple[bytes, ...]:
        """Return the payloads without what may differ, and without those that hold nothing else."""
        return tuple(masked(payload) for payload in self.payloads if payload != b"null" and b'"choices":[]' not in payload)

    @property
    def usages(self) -> dict[int, bytes]:
        """Return each usage as it stands, but for the gateway's own figure, by the place of its payload from the end."""
        found = {place: USAGE.search(payload) for place, payload in enumerate(reversed(self.payloads))}
        return {place: COST.sub(b"", usage[1]) for place, usage in found.items() if usage is not None}

    @property
    def last_usage(self) -> bytes:
        """Return the usage that counts."""
        return next(iter(self.usages.values()))

    @property
    def usage(self) -> tuple[int, int]:
        """Return the tokens of the last usage."""
        last = msgspec.json.decode(self.last_usage)
        return last["prompt_tokens"], last["completion_tokens"]


def masked(payload: bytes) -> bytes:
    for pattern, instead in (*ITS_OWN, *EDITED):
        payload = pattern.sub(instead, payload)
    return payload


async def ask(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Answer:
    response = await client.post(path, json=body)
    if response.headers["content-type"].startswith("text/event-stream"):
        payloads = tuple(line.removeprefix(b"data: ") for line in response.content.split(b"\n") if line)
    else:
        payloads = (response.content,)
    return Answer(response.status_code, payloads, response.headers.get("x-request-id", ""))


def verdict(direct: Answer, through: Answer, *, streamed: bool, asked: bool) -> str:
    """Return what is wrong, "" where nothing is."""
    if direct.status != through.status:
        return f"status {through.status} instead of {direct.status}: {through.payloads[0].decode()}"
    if direct.status != 200:
        return ""
    if direct.masked != through.masked:
        pairs = zip(direct.masked, through.masked, strict=False)
        place, (theirs, ours) = next(((n, p) for n, p in enumerate(pairs) if p[0] != p[1]), (-1, (b"", b"")))
        return f"{len(through.masked)} payloads instead of {len(direct.masked)}; at {place}: {ours!r} instead of {theirs!r}"
    wanted = {} if streamed and not asked else {int(streamed): direct.last_usage}
    return "" if through.usages == wanted else f"usage {through.usages} instead of {wanted}"


async def compare(run: Running, upstream: httpx.AsyncClient, model: str, cases: Cases) -> bool:
    """Run the cases and print a line for each. Return whether all are equal."""
    differing = 0
    for name, path, fields in cases:
        for mode, options in MODES.items():
            body = {**FIXED, **fields, **options}
            direct = await ask(upstream, path, {**body, "model": model})
            through = await ask(run.client, path, {**body, "model": PUBLIC})
            wrong = verdict(direct, through, streamed="stream" in options, asked="stream_options" in options)
            if direct.status == 200:
                asking = MODES["stream, usage"] if "stream" in options else {}
                said = (await ask(upstream, path, {**body, **asking, "model": model})).usage
                [row] = [row for row in await run.rows() if row["request_id"] == through.request_id]
                billed = (row["input_tokens"], row["output_tokens"])
                wrong = wrong or ("" if billed == said else f"the ledger has {billed}, the server said {said}")
                told = f"{len(through.payloads):4} payloads, {billed[0]}+{billed[1]} tokens"
            else:
                told = f"both {direct.status}: {through.payloads[0].decode()[:100]}"
            differing += bool(wrong)
            print(f"{'DIFFERS' if wrong else 'equal':8} {name:24} {mode:14} {told}{wrong and '; '}{wrong}", flush=True)
    print(f"{len(cases) * len(MODES) - differing} of {len(cases) * len(MODES)} equal")
    return not differing


async def main(url: str, cases: Cases = CASES) -> bool:
    """Set a gateway before the server and compare."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as upstream:
        model = (await upstream.get("/v1/models")).json()["data"][0]["id"]
        models = {PUBLIC: {"deployments": [{"provider": "real", "model": model}], "price": {"input": 1.0, "output": 2.0}}}
        with Valkey() as valkey, tempfile.TemporaryDirectory() as directory:
            async with running(config({"real": url}, models), valkey, Path(directory)) as run:
                return await compare(run, upstream, model, cases)
