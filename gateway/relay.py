"""A committed answer on its way to the client; owns the exchange until it is settled.

Bytes leave as the reader hands them on, one write for what arrived together. After the commit point nothing is tried again: a
stream that breaks gets one error event and no `[DONE]`, so that half an answer never looks whole. Seconds of the monotonic clock.
"""

from asyncio import CancelledError
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from gateway.errors import Draining, GatewayError, Internal, StreamInterrupted, Unauthenticated, UpstreamTimeout
from gateway.exchange import Exchange
from gateway.faults import Failed, Fault
from gateway.policy.keys import REVOKED
from gateway.policy.record import Outcome
from gateway.policy.trail import Headers, trail
from gateway.providers.protocol import StreamReader
from gateway.upstream.attempt import Flowing
from gateway.upstream.transport import TransportError
from gateway.watch import Cut

STREAM_HEADERS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

GONE = frozenset({Cut.DEPARTED, Cut.CLIENT_STALL})
"""Cuts that leave nobody to tell."""

UPSTREAMS_OWN = frozenset({Cut.IDLE, Cut.TOTAL})
"""Timers that only the provider can miss, while it is waited for."""

PIECE_BYTES = 65_536
"""How much of a complete answer is written at once: a client without room for more is waited for, and each piece is progress."""

LINGER_S = 0.25
"""How long the end of a body is waited for behind its end mark: it mostly comes in the next packet, and keeps the connection."""

BROKEN_TEXT = "The model's provider broke off before the answer was complete"


class Downstream(Protocol):
    """The client's side of a request, as the web room gives it. Each call returns when the client has room for more."""

    async def start(self, headers: Headers) -> None:
        """Send the head of a 200, unless one has gone out before."""
        ...

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body."""
        ...

    async def finish(self, piece: bytes) -> None:
        """Send the last piece, which may be empty, and end the body."""
        ...

    def event(self, error: GatewayError, number: int) -> bytes:
        """Return the event that ends a stream in this error; it has this number where events are numbered."""
        ...


class Relay:
    """Carries one exchange downstream."""

    def __init__(self, exchange: Exchange, downstream: Downstream, now_s: Callable[[], float]) -> None:
        self._exchange = exchange
        self._downstream = downstream
        self._now_s = now_s
        self._record = exchange.reservation.record
        self._unsent = b""
        """The piece that the client has yet to make room for."""
        self._next_number = 0
        """Of the next event, where events are numbered."""

    async def run(self, *, hide_providers: bool) -> None:
        """Send the answer to its end, or as far as the client and the provider let it come; then let go of everything."""
        committed = self._exchange.committed
        self._record.outcome = Outcome.CANCELLED
        try:
            headers = trail(self._record, hide_providers=hide_providers)
            if isinstance(committed, Flowing):
                await self._stream(committed, headers)
            else:
                await self._whole(committed.body, headers)
        except Exception:
            self._record.outcome, self._record.error_code = Outcome.INTERRUPTED, Internal.code
            raise
        finally:
            if isinstance(committed, Flowing):
                self._record.strange_events = committed.reader.strange_events
            self._exchange.close()

    async def _whole(self, body: bytes, headers: Headers) -> None:
        downstream, watch, record = self._downstream, self._exchange.watch, self._record
        watch.arm(self._stall())
        await self._exchange.reservation.secure(Outcome.OK)
        await downstream.start([(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers])
        if len(body) > PIECE_BYTES:
            # A server waits for room before it writes, never after: the end has to wait for the rest to be taken.
            for start in range(0, len(body), PIECE_BYTES):
                piece = body[start : start + PIECE_BYTES]
                await downstream.write(piece)
                record.bytes_sent += len(piece)
                watch.arm(self._stall())
            body = b""
        await downstream.finish(body)
        record.bytes_sent += len(body)
        record.outcome = Outcome.OK

    async def _stream(self, flow: Flowing, headers: Headers) -> None:
        try:
            error = await self._flow(flow, headers)
        except CancelledError:
            last = self._last_words(flow.reader)
            if last is None:
                raise
        else:
            if error is None:
                self._record.outcome = Outcome.OK
                await self._end_of_body(flow)
                return
            last = self._told(error)
        self._exchange.watch.arm(self._stall())
        await self._finish(last, self._record.outcome)

    async def _flow(self, flow: Flowing, headers: Headers) -> GatewayError | None:
        """Carry the stream to its end; return what broke it, if anything did."""
        downstream, watch = self._downstream, self._exchange.watch
        watch.arm(self._stall(), self._exchange.end)
        await downstream.start([*STREAM_HEADERS, *headers])
        step, ended = flow.first, flow.ended
        idle_from_s = self._now_s()
        while True:
            if step.out:
                self._next_number = step.next_number
                self._record.bytes_sent += len(step.out)
                self._unsent = step.out
                watch.arm(self._stall(), self._exchange.end)
                if flow.reader.done or (ended and step.failed is None):
                    await self._finish(step.out, Outcome.OK)
                    return None
                await downstream.write(step.out)
                self._unsent = b""
                idle_from_s = self._now_s()
            if step.failed is not None:
                return self._broken(step.failed)
            if ended or flow.reader.done:
                await self._finish(b"", Outcome.OK)
                return None
            watch.arm((Cut.IDLE, idle_from_s + self._exchange.timeouts.idle_s), self._exchange.end)
            try:
                piece = await flow.reply.next()
            except TransportError as broken:
                if not flow.reader.finished:
                    return self._broken(Failed(fault=broken.fault))
                piece = b""  # all was said: an answer that only its end mark is missing of is whole, however it ends
            ended = not piece
            step = flow.reader.feed(piece) if piece else flow.reader.end()

    async def _finish(self, piece: bytes, outcome: Outcome) -> None:
        """Send the last of a stream, which ends so: not before the ledger has it where that is waited for."""
        await self._exchange.reservation.secure(outcome)
        await self._downstream.finish(piece)

    async def _end_of_body(self, flow: Flowing) -> None:
        """See the upstream's body out, of which the client has all: a connection is only used again behind a proper end."""
        self._exchange.watch.arm((Cut.IDLE, self._now_s() + LINGER_S))
        try:
            while await flow.reply.next():
                pass
        except TransportError:
            return  # the answer is whole, and so the connection is all that is lost

    def _broken(self, failed: Failed) -> GatewayError:
        self._record.outcome = Outcome.INTERRUPTED
        self._note_fault(failed.fault)
        return StreamInterrupted(BROKEN_TEXT)

    def _last_words(self, reader: StreamReader) -> bytes | None:
        """Return what is left to say to a client after a cut, None where it is not there to hear it."""
        watch = self._exchange.watch
        cut = watch.cut
        if cut is None or cut in GONE:
            if reader.finished and not self._unsent:
                # The client has what it came for: hanging up behind the last event is no cancellation.
                self._record.outcome = Outcome.OK
            self._exchange.reservation.left = True
            return None
        watch.resume()
        if reader.finished and (step := reader.end()).failed is None:
            # All was said, and only the end mark is missing: to wait for it in vain breaks nothing.
            self._record.outcome = Outcome.OK
            self._record.bytes_sent += len(step.out)
            return self._unsent + step.out
        return self._told(self._cut(cut))

    def _cut(self, cut: Cut) -> GatewayError:
        """Write down that an answer was cut short, and return what the client is told of it."""
        if cut in (Cut.DRAIN, Cut.REVOKED):
            self._record.outcome = Outcome.INTERRUPTED
            return Draining("The gateway is shutting down") if cut is Cut.DRAIN else Unauthenticated(REVOKED)
        self._record.outcome = Outcome.INTERRUPTED if cut is Cut.IDLE else Outcome.TIMEOUT
        if cut in UPSTREAMS_OWN and not self._unsent:
            self._note_fault(Fault.TIMEOUT)
        return UpstreamTimeout("The answer was not complete in time")

    def _told(self, error: GatewayError) -> bytes:
        """Return the event that ends a stream in this error."""
        self._record.error_code = error.error_code
        return self._downstream.event(error, self._next_number)

    def _note_fault(self, fault: Fault) -> None:
        self._exchange.reservation.break_off(Failed(fault=fault), 0)
        self._exchange.reservation.holder.note_fault(fault)
        attempts = self._record.attempts
        attempts[-1] = replace(attempts[-1], outcome=fault)

    def _stall(self) -> tuple[Cut, float]:
        """Return the timer of a client that has to make room."""
        return (Cut.CLIENT_STALL, self._now_s() + self._exchange.timeouts.client_stall_s)
