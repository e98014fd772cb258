"""The corridor: one request from its first byte to a committed answer, read top to bottom.

Authenticate, parse, plan, admit, attempt; relay and settle follow in `gateway.relay` and `gateway.exchange`. Every decision is
made in `gateway.policy`; this room asks, acts and keeps the record.
"""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec.structs import replace

from gateway.admission.client import AdmissionUnavailable
from gateway.errors import Draining, GatewayError, Internal, LimiterUnavailable, Unauthenticated, UpstreamTimeout, status_of
from gateway.exchange import Books, Exchange, Hold, Reservation
from gateway.job import Job, Snapshot, Store
from gateway.keys import Authenticate, Principal
from gateway.policy import tiers, verdicts
from gateway.policy.catalogue import Key
from gateway.policy.deadlines import deadline
from gateway.policy.fields import bad_values
from gateway.policy.floods import FloodGuard
from gateway.policy.keys import REVOKED, for_project
from gateway.policy.record import Opened, Outcome, Record
from gateway.policy.routing import Plan
from gateway.providers.protocol import Answer
from gateway.tasks import Owned
from gateway.upstream.counted import Counted
from gateway.upstream.remainder import Remainders
from gateway.walk import Walk
from gateway.watch import Cut, Watch
from gateway.wire import betas
from gateway.wire.contracts import Contract
from gateway.wire.request import COUNT, Endpoint, InferenceRequest, parse

REDIS_WAIT_MS = 1_000
"""When to come back while the admission store is away: its reconnection takes about as long."""

EXPLAIN = b"x-gateway-explain"
"""The header by which a client asks what became of its request; the answer comes under the same name."""

CLIENT_CLOSED = 499
"""The status in the log of a request whose client left; nginx's number, which dashboards know."""

Headers = list[tuple[bytes, bytes]]

encode = msgspec.json.Encoder().encode


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the web room hands it over: its head, the way to its body, and what may cut it short."""

    endpoint: Endpoint
    contract: Contract
    headers: Headers
    fields: Mapping[bytes, bytes]
    """The same by name, the last of doubles."""
    counts: bool = False
    """Only how many tokens the prompt has is asked."""
    query: bytes
    address: str | None
    check: Callable[[], None]
    """Raises the `GatewayError` of a head that is no clean request."""
    body: Callable[[], Awaitable[bytes]]
    keep_alive: Callable[[float], None]
    """Has the client told after each silence of so many seconds, from now on, that there is more to come."""
    watch: Watch
    record: Record
    dice: int

    def __repr__(self) -> str:
        return f"Visit({self.record.request_id!r})"


class Corridor:
    """Leads requests through the house, against whatever `snapshot` is current when they come."""

    def __init__(self, snapshot: Snapshot, authenticate: Authenticate, store: Store, books: Books) -> None:
        self.snapshot = snapshot
        self.draining = False
        self.tasks = Owned()
        """Settlements under way."""
        self.remainders = Remainders()
        """Answers that are read on, whose clients have left."""
        self._floods = FloodGuard()
        self._authenticate = authenticate
        self._store = store
        self._books = books

    async def handle(self, visit: Visit) -> Exchange:
        """Return the committed answer. Raises `GatewayError` while nothing has been sent; whatever was held is let go of."""
        self._books.begin(visit.record, visit.fields)
        reservation = Reservation(visit.record, self._books, self.tasks, self.remainders, self._store.leases.remove)
        try:
            return await self._told(visit, reservation)
        except BaseException:
            reservation.close()
            raise

    async def _told(self, visit: Visit, reservation: Reservation) -> Exchange:
        """Serve, and write down how a request ended that nothing was served for."""
        try:
            return await self._serve(visit, reservation)
        except AdmissionUnavailable as lost:
            error = LimiterUnavailable("The gateway cannot check limits at the moment", retry_after_ms=REDIS_WAIT_MS)
            raise note_error(reservation, error) from lost
        except GatewayError as error:
            note_error(reservation, error)
            raise
        except CancelledError:
            if visit.watch.cut not in (Cut.DEADLINE, Cut.DRAIN, Cut.REVOKED):
                note_departure(reservation)
                raise
            raise note_error(reservation, cut_error(visit.watch)) from None
        except Exception:
            note_error(reservation, Internal("The gateway failed to handle this request"))
            raise

    async def _serve(self, visit: Visit, reservation: Reservation) -> Exchange:
        record, snapshot = visit.record, self.snapshot
        visit.check()
        if self.draining:
            raise Draining("The gateway is shutting down", retry_after_ms=REDIS_WAIT_MS)
        entering = self._authenticate(snapshot.catalogue, visit.headers, visit.address)
        principal = entering if isinstance(entering, Principal) else await entering
        key = for_project(principal.key, visit.query)
        visit.watch.key_id = key.id
        note_key(record, key)
        record.explains = key.explain and visit.fields.get(EXPLAIN, b"").lower() == b"true"
        request = await self._read(visit, key)
        note_request(record, request)
        if key.user_hash and request.user:
            record.user_hash = snapshot.hash_user(key.org, request.user)
        due = deadline(visit.fields, record.started_s, stream=request.stream)
        visit.watch.arm((Cut.DEADLINE, due.commit_s))
        wanted = tiers.wish(request.service_tier, key, visit.endpoint, visit.contract)
        self._floods.count(key, wanted, record.started_unix_ms)
        plan = snapshot.planner.plan(key, request, wanted, visit.dice, record.started_unix_ms)
        if visit.counts:
            return counted(plan, reservation, visit.watch)
        if snapshot.figures is not None:
            plan = snapshot.figures.ordered(plan, visit.dice, stream=request.stream)
            reservation.holder = Counted(snapshot.figures, plan.candidates[0].target, record)
        job = Job(
            snapshot=snapshot,
            principal=principal,
            request=request,
            plan=plan,
            reservation=reservation,
            watch=visit.watch,
            due=due,
            opened=reservation.open(opened(record, key)),
            dice=visit.dice,
            now_s=self._books.now_s,
        )
        if request.stream and key.keepalive_s is not None:
            visit.keep_alive(key.keepalive_s)
        return await Walk(self._store, job).run()

    async def _read(self, visit: Visit, key: Key) -> InferenceRequest:
        """Return what the body asks for. One that is no good counts like any other: a client that loops has no other limit."""
        try:
            body, table = await visit.body(), COUNT if visit.counts else None
            request = parse(visit.endpoint, body, visit.contract, table, bad_values(key, self.snapshot.catalogue.names))
        except GatewayError:
            self._floods.count(key, None, visit.record.started_unix_ms)
            raise
        in_betas = visit.endpoint is Endpoint.MESSAGES and betas.HEADER in visit.fields
        return replace(request, betas=betas.betas_of(visit.headers)) if in_betas else request


def cut_error(watch: Watch) -> GatewayError:
    """Return what a request hears that was cut short before its commit point."""
    cut = watch.cut
    watch.resume()
    if cut is Cut.REVOKED:
        return Unauthenticated(REVOKED)
    if cut is Cut.DRAIN:
        return Draining("The gateway is shutting down", retry_after_ms=REDIS_WAIT_MS)
    return UpstreamTimeout("The request's deadline passed before there was an answer")


def counted(plan: Plan, reservation: Reservation, watch: Watch) -> Exchange:
    """Return the answer that tells what would be held for a prompt. Nobody is asked for it, so that it costs nothing."""
    first = plan.candidates[0]
    body = encode({"input_tokens": first.row.estimate.input})
    reservation.record.status = 200
    timeouts = first.target.model.timeouts
    return Exchange(
        committed=Answer(body=body, usage=None, tier=None, output_bytes=0),
        reservation=reservation,
        watch=watch,
        end=(Cut.TOTAL, reservation.record.started_s + timeouts.total_s),
        timeouts=timeouts,
    )


def note_key(record: Record, key: Key) -> None:
    """Write down who asks."""
    record.key_id, record.key_name, record.org, record.project = key.id, key.name, key.org, key.project


def note_request(record: Record, request: InferenceRequest) -> None:
    """Write down what is asked for."""
    record.models_requested = request.models or ()
    record.model_requested = request.models[0] if request.models else request.model
    record.tier_requested = request.service_tier
    record.stream = request.stream


def note_departure(reservation: Reservation) -> None:
    """Write down that the client left before there was an answer; the status is for the log alone."""
    reservation.left, record = True, reservation.record
    record.outcome, record.status, record.error_code = Outcome.CANCELLED, CLIENT_CLOSED, "client_closed"


def note_error(reservation: Reservation, error: GatewayError) -> GatewayError:
    """Write down how a request ended that got no answer, which costs its client nothing, and return the error."""
    reservation.give_up()
    record = reservation.record
    record.status, record.error_code = status_of(error), error.error_code
    record.outcome = verdicts.outcome(error) if reservation.hold is Hold.GRANTED else Outcome.REJECTED
    return error


def opened(record: Record, key: Key) -> Opened:
    """Return the ledger's `open` event of a request that is about to be admitted."""
    return Opened(
        request_id=record.request_id,
        started_unix_ms=record.started_unix_ms,
        key=key.name,
        key_id=key.id,
        org=key.org,
        project=key.project,
        model_requested=record.model_requested,
        tier_requested=record.tier_requested,
        route=record.route,
        stream=record.stream,
        client_request_id=record.client_request_id,
        user_hash=record.user_hash,
    )
