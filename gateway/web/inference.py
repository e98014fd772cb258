"""The inference endpoints as bare ASGI: read a request, lead it through the corridor, relay what comes back.

Litestar mounts these by path; its middleware and exception handling do not run here, so ids, errors and headers are this room's.
"""

import asyncio
from collections.abc import Callable, Mapping
from itertools import chain

import msgspec

from gateway.errors import (
    GatewayError,
    HeadersTooLarge,
    Internal,
    InvalidRequest,
    MethodNotAllowed,
    Overloaded,
    UnsupportedMediaType,
)
from gateway.pipeline import Corridor, Visit
from gateway.policy.catalogue import Secret
from gateway.policy.record import LONGEST_WORD, Record
from gateway.policy.trail import Headers, early, trail
from gateway.relay import STREAM_HEADERS, Relay
from gateway.tasks import Owned
from gateway.watch import Sweep
from gateway.web.client import OVERLOAD_WAIT_MS, Buffered, Client, Io, Message, Receive, Send, check_size
from gateway.wire.contracts import OPENAI, Contract
from gateway.wire.envelope import Manner, Telling
from gateway.wire.request import Endpoint

Fields = Mapping[bytes, bytes]
"""A request's headers by name, in lower case."""

GZIP = b"gzip"
CODINGS = frozenset({b"", b"identity", GZIP})

MOST_FIELDS = 64
"""How many header fields a request may have: browsers send some 20, and each proxy adds a few. Apache takes 100."""


OPERATIONS = {Endpoint.COMPLETIONS: "text_completion", Endpoint.EMBEDDINGS: "embeddings"}
"""All else is chat, by whatever contract."""


class Clocks(msgspec.Struct, frozen=True):
    """Time and identity, as the root hands them in: monotonic seconds, Unix milliseconds, a fresh id with 64 random bits."""

    now_s: Callable[[], float]
    unix_ms: Callable[[], int]
    request_id: Callable[[], tuple[str, int]]


class Caps(msgspec.Struct, frozen=True):
    """What one worker takes on; beyond it a request is turned away before it costs anything.

    `hidden` is what no log of bodies may have, None where bodies are not logged at all.
    """

    inflight: int
    buffered_bytes: int
    body_bytes: int
    header_bytes: int
    hidden: tuple[Secret, ...] | None = None


class Floor:
    """All requests that are under way in this worker."""

    def __init__(self, corridor: Corridor, sweep: Sweep, clocks: Clocks, caps: Caps) -> None:
        self.corridor = corridor
        self.sweep = sweep
        self.clocks = clocks
        self.caps = caps
        self.buffered = Buffered(caps.buffered_bytes)
        self.watchers = Owned()

    def go_by(self, caps: Caps) -> None:
        """Take on as much as other caps say from now on."""
        self.caps, self.buffered.most_bytes = caps, caps.buffered_bytes

    def check_room(self) -> None:
        """Raise `Overloaded` when this worker has all it can carry; the request that asks is counted already."""
        if len(self.sweep) > self.caps.inflight or self.buffered.full:
            raise Overloaded("The gateway has too many requests in flight", retry_after_ms=OVERLOAD_WAIT_MS)


class Route(msgspec.Struct, frozen=True):
    """One path: which endpoint it is, by which contract."""

    path: str
    endpoint: Endpoint
    contract: Contract = OPENAI
    counts: bool = False
    """Only how many tokens a prompt has is asked here."""

    @property
    def operation(self) -> str:
        """Return what OpenTelemetry calls what is asked for here."""
        return OPERATIONS.get(self.endpoint, "chat")

    @property
    def manner(self) -> Manner:
        """Return whose clients come here: what an error looks like."""
        if self.endpoint is Endpoint.MESSAGES:
            return Manner.ANTHROPIC
        return Manner.DETAIL if self.contract.detail else Manner.OPENAI


class Inference:
    """One endpoint at one path. An instance is an ASGI application."""

    def __init__(self, route: Route, floor: Floor, on_fault: Callable[[str], None]) -> None:
        self._route = route
        self._floor = floor
        self._on_fault = on_fault

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        floor = self._floor
        request_id, dice = floor.clocks.request_id()
        headers: Headers = scope["headers"]
        fields = dict(headers)
        watch = floor.sweep.open()
        telling = Telling(self._route.manner, request_id, self._route.endpoint is Endpoint.RESPONSES)
        client = Client(Io(scope, receive, send), watch, floor.buffered, telling)
        record = Record(
            request_id=request_id,
            route=self._route.path,
            started_s=floor.clocks.now_s(),
            started_unix_ms=floor.clocks.unix_ms(),
            client_request_id=word_of(fields, b"x-request-id"),
            client_source=word_of(fields, b"x-deepinfra-source"),
            client_retries=word_of(fields, b"x-stainless-retry-count"),
        )
        visit = Visit(
            endpoint=self._route.endpoint,
            contract=self._route.contract,
            counts=self._route.counts,
            headers=headers,
            fields=fields,
            query=scope["query_string"],
            address=scope["client"][0] if scope["client"] else None,
            check=lambda: check_head(scope, fields, floor),
            body=lambda: read_body(client, fields, floor),
            keep_alive=lambda every_s: client.keep_alive(every_s, lambda: early_head(record), floor.watchers),
            watch=watch,
            record=record,
            dice=dice,
        )
        try:
            await self._serve(visit, client)
        except asyncio.CancelledError:
            # A cut ends here, quietly; a cancellation that nobody gave a reason for is the server's own and goes on.
            if watch.cut is None:
                raise
        finally:
            client.close()
            floor.sweep.close(watch)

    async def _serve(self, visit: Visit, client: Client) -> None:
        corridor, record = self._floor.corridor, visit.record
        hide = corridor.snapshot.catalogue.hide_providers
        try:
            exchange = await corridor.handle(visit)
            await Relay(exchange, client, self._floor.clocks.now_s).run(hide_providers=hide)
        except GatewayError as error:
            await self._refuse(error, visit, client)
        except Exception:  # noqa: BLE001  the last line of defence: a fault of ours is told as one, and logged
            self._on_fault(record.request_id)
            await self._refuse(Internal("The gateway failed to handle this request"), visit, client)

    async def _refuse(self, error: GatewayError, visit: Visit, client: Client) -> None:
        hide = self._floor.corridor.snapshot.catalogue.hide_providers
        await client.refuse(error, trail(visit.record, hide_providers=hide))


async def read_body(client: Client, fields: Fields, floor: Floor) -> bytes:
    """Return the body as the client meant it. Raises `RequestTooLarge` and `InvalidRequest`."""
    body = await client.body(floor.caps.body_bytes, floor.watchers)
    packed = b"content-encoding" in fields and coding(fields[b"content-encoding"]) == GZIP
    return client.unpack(body, floor.caps.body_bytes) if packed else body


def early_head(record: Record) -> Headers:
    """Return the head of a stream that begins with a comment, and write down that it does."""
    record.early_head = True
    return [*STREAM_HEADERS, *early(record)]


def word_of(fields: Fields, name: bytes) -> str | None:
    """Return what the client says of its request under this name, for people to read."""
    found = fields.get(name)
    return None if found is None else found[:LONGEST_WORD].decode("latin-1")


def check_head(scope: Message, fields: Fields, floor: Floor) -> None:
    """Raise the `GatewayError` of a head that is no clean POST of JSON, or that comes when there is no room for it."""
    if scope["method"] != "POST":
        raise MethodNotAllowed(allow="POST")
    floor.check_room()
    headers, most_bytes = scope["headers"], floor.caps.header_bytes
    if len(headers) > MOST_FIELDS:
        raise HeadersTooLarge(f"The request has more than {MOST_FIELDS} header fields")
    if len(scope["query_string"]) + sum(map(len, chain.from_iterable(headers))) > most_bytes:
        raise HeadersTooLarge(f"The request's headers and query are larger than {most_bytes} bytes")
    check_content_type(fields.get(b"content-type", b""))
    if b"content-encoding" in fields and coding(fields[b"content-encoding"]) not in CODINGS:
        raise UnsupportedMediaType("A request body may be compressed with gzip, and nothing else")
    if b"content-length" in fields:
        check_length(fields[b"content-length"], floor.caps.body_bytes)


def coding(value: bytes) -> bytes:
    """Return a content coding as it compares."""
    return value.strip().lower()


def check_content_type(value: bytes) -> None:
    """Raise `UnsupportedMediaType` for what is not JSON; an absent or empty type is taken for JSON."""
    if value == b"application/json":
        return
    media = value.partition(b";")[0].strip().lower()
    if media and media != b"application/json" and not media.endswith(b"+json"):
        raise UnsupportedMediaType("The request body must be application/json")


def check_length(value: bytes, most_bytes: int) -> None:
    """Raise `RequestTooLarge` before anything of a body that says it is too large was read."""
    if not value.isdigit():
        raise InvalidRequest("content-length must be a number")
    check_size(int(value), most_bytes)
