"""What a wire dialect does: make the call, read the answer, name the failure. One file a dialect, no IO, no retries.

A dialect is built once for each provider and keeps no state of requests; what a stream needs to remember lives in the
`StreamReader` that is made for it. Pure.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Provider, Tier
from gateway.policy.natures import Nature
from gateway.policy.pricing import FREE, Tariff, in_force
from gateway.policy.record import Record
from gateway.policy.routing import Candidate
from gateway.wire.request import Endpoint, InferenceRequest
from gateway.wire.usage import Usage


class Edits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the gateway changes in an answer, and nothing else (decision 33).

    `model` is the public name; `tier` is echoed in the body (None leaves the member out); `id` is used where the upstream gives
    none or changes its own, `created_s` (Unix time) where it has none by its dialect. `show_usage` lets a stream's usage through.
    `tariff` makes `usage.estimated_cost`, where there is a price: that of the request's admission.
    """

    endpoint: Endpoint
    model: str
    tier: str | None
    id: str
    show_usage: bool
    tariff: Tariff = FREE
    created_s: int = 0
    upstream_model: str = ""
    """The provider's name for the model, which never shows in what a client is told."""
    choices: int = 1
    """How many were asked for, n times the prompts: a stream is whole when so many have finished, or with so many vectors."""
    running_usage: bool = False
    """Usage stays on every chunk that has it; without, it is told once, at the end."""
    reasoning_outside: bool = False
    """The provider's output count leaves reasoning out: clients get one that has it."""
    usage_on_finish: bool = False
    """A stream's usage is told on the chunk that ends it, which waits for it."""
    usage_with_finish: bool = False
    """The upstream tells it there, so that nobody waits."""
    base64: bool = False
    """Vectors go out as base64, else as lists of numbers."""


def edits_for(request: InferenceRequest, candidate: Candidate, record: Record) -> Edits:
    """Return what is changed in the answer of this candidate's."""
    deployment = candidate.target.deployment
    tariff = in_force(candidate.way.tariffs, record.admitted_unix_ms or record.started_unix_ms)
    quirks = deployment.provider.quirks
    on_finish = request.contract.usage_on_finish and request.include_usage is not False
    return Edits(
        endpoint=request.endpoint,
        model=candidate.shown,
        tier=candidate.target.tier,
        id=record.request_id,
        created_s=record.started_unix_ms // 1000,
        show_usage=bool(request.include_usage) and not on_finish,
        tariff=tariff if request.endpoint.generates else tariff.without_echoes,
        upstream_model=deployment.upstream_model,
        choices=request.n * request.prompts,
        running_usage=request.wants_running_usage,
        reasoning_outside=quirks.reasoning_outside,
        usage_on_finish=on_finish,
        usage_with_finish=quirks.finish_chunk_usage,
        base64=request.fields.get("encoding_format") == "base64",
    )


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A complete answer as the client gets it. `usage` None: the upstream gave none. `tier` is the upstream's own word."""

    body: bytes
    usage: Usage | None
    tier: str | None
    output_bytes: int
    """UTF-8 bytes of the text that was produced: what an estimate of the output goes by; 0 where the usage tells of all of it."""

    def __repr__(self) -> str:
        return f"Answer({len(self.body)} bytes, {self.usage!r})"


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one piece of a stream led to.

    `out` are the bytes for the client, withheld so far or just read. `committed` is True from the first content on (decision 18).
    `failed` ends the stream: before the commit point the walk goes on, after it the client gets an error event.
    """

    out: bytes = b""
    committed: bool = False
    failed: Failed | None = None
    next_number: int = 0
    """Of the event that would follow, where events are numbered."""

    def __repr__(self) -> str:
        return f"Step({len(self.out)} bytes, committed={self.committed}, failed={self.failed!r})"


class StreamReader(Protocol):
    """One stream on its way through: frames seen, edits spliced in, everything else as it came."""

    usage: Usage | None
    """The last usage that the upstream reported."""
    tier: str | None
    """The upstream's own word, the last that was told: what is shown from then on, and charged."""
    finished: bool
    """A proper end was seen: a finish reason for every choice, or `[DONE]` after content."""
    done: bool
    """The end mark has gone out: nothing may follow, and nothing more is read."""
    strange_events: int
    """How many events were left out because they are no chunk at all, as far as was read."""

    @property
    def output_bytes(self) -> int:
        """Return the UTF-8 bytes of the text that was produced so far, 0 where the last usage tells of all of it."""
        ...

    def feed(self, piece: bytes) -> Step:
        """Take bytes as they were read."""
        ...

    def end(self) -> Step:
        """Take the end of the body; `out` closes the stream (with `[DONE]` exactly once) or `failed` says what is missing."""
        ...


class PartsReader(StreamReader, Protocol):
    """The streams of several calls that follow each other, read as one."""

    part_done: bool
    """The end mark of a part was seen behind which there is another."""

    def turn(self) -> Failed | None:
        """Take the end of a part's body and turn to the next part; return what the part is missing, if anything."""
        ...


class Translation(Protocol):
    """How the answers to one call and those that follow it become the one answer that was asked for."""

    def take(self, body: bytes, edits: Edits) -> Answer | Failed | None:
        """Take a complete 2xx body; None while others have to come."""
        ...

    def reader(self, edits: Edits) -> PartsReader:
        """Return a fresh reader for the streams."""
        ...

    def failed(self, failed: Failed) -> Failed:
        """Return a failure as the client can make sense of it."""
        ...


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One HTTP request to an upstream: always POST, always JSON. `path` is below the base URL; host and length are not ours."""

    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    dropped: tuple[str, ...] = ()
    """Fields of the client's that this provider does not get, as names that are safe in a header (`x-gateway-dropped-params`)."""
    lowered: tuple[str, ...] = ()
    """Values that it gets less of, as entries `name=value` (`x-gateway-adjusted-params`)."""
    further: tuple[bytes, ...] = ()
    """The bodies of the calls that have to follow this one, each when the one before has ended, for one answer of them all."""
    translation: Translation | None = None
    """How the answers are read, where the call was not made in the words of the client's endpoint."""

    def __repr__(self) -> str:
        return f"Call({self.path}, {len(self.body)} bytes)"


class Spoken(Protocol):
    """A dialect, whoever speaks it: what it is by nature, and how it is built for a provider."""

    nature: Nature

    def __call__(self, provider: Provider) -> "Dialect":
        """Return it as this provider speaks it."""
        ...


class Dialect(Protocol):
    """How to speak to one provider."""

    def call(self, request: InferenceRequest, deployment: Deployment, tier: Tier, *, last: bool) -> Call:
        """Return the call; `last` is False while another candidate remains (then `fail_fast` goes along where understood).

        Raises `GatewayError` for what only a dialect that translates has to look into, and no JSON document may hold.
        """
        ...

    def answer(self, body: bytes, edits: Edits) -> Answer | Failed:
        """Read a complete 2xx body."""
        ...

    def reader(self, edits: Edits) -> StreamReader:
        """Return a fresh reader for one stream."""
        ...

    def not_a_stream(self, body: bytes, *, upstream_model: str = "") -> Failed:
        """Name what a 2xx means that should have been an event stream and is not."""
        ...

    def failure(self, status: int, headers: Mapping[bytes, bytes], body: bytes, *, upstream_model: str = "") -> Failed:
        """Name what a status other than 2xx means (wire contract, 6.4); header names are in lower case."""
        ...
