"""One attempt at one deployment: the call goes out, and either an answer is committed or the failure has a name.

Up to the commit point nothing has gone downstream, so the walk may try elsewhere; past it there is only relaying. Never retries.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from gateway.faults import Failed, Fault
from gateway.providers.headroom import exhausted_by
from gateway.providers.protocol import Answer, Call, Dialect, Edits, Step, StreamReader, Translation
from gateway.upstream.successive import Calls, Successive
from gateway.upstream.transport import Outgoing, Reply, Transport, TransportError

ERROR_BODY_BYTES = 65_536
"""How much of an error's body is read: beyond it no provider says anything new."""

ERROR_BODY_S = 1.0
"""How long an error's body is waited for: it explains a failure that is known already, and the next candidate is waiting."""

ANSWER_BYTES = 33_554_432
"""The largest complete answer that is held in memory, 32 MiB: base64 audio is the largest that providers send."""

LARGE_ANSWER_BYTES = 1_048_576
"""From here on an answer is read beside the event loop, 1 MiB: to convert hundreds of vectors takes a tenth of a second."""


class Flowing(msgspec.Struct, frozen=True):
    """A committed stream: its reply, the reader that has seen its beginning, and the bytes that were withheld until now.

    `ended` says that the whole body was in by then.
    """

    reply: Reply
    reader: StreamReader
    first: Step
    ended: bool


Committed = Answer | Flowing


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """Where an attempt goes: the connections, the language spoken, the call, and what is edited in the answer."""

    transport: Transport
    dialect: Dialect
    call: Call
    edits: Edits
    stream: bool
    now_s: Callable[[], float]


class Holder:
    """Holds the reply of the attempt under way, so that a request that is cut short lets go of its connection at once."""

    __slots__ = ("accepted", "exhausted_ms", "reply", "sent")

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self.sent = False
        """The request is on its way to the upstream, if not there."""
        self.accepted = False
        """The upstream took the request on: it answered with a 2xx head."""
        self.exhausted_ms = 0
        """For how long our account there has nothing left, as that head says."""

    def note_sent(self) -> None:
        """Take note that the request leaves."""
        self.sent = True

    async def attempt(self, dispatch: Dispatch) -> Committed | Failed:
        """Make the call, and those that have to follow it, and return the committed answer, or why there is none."""
        try:
            reply = await _reply_to(dispatch, dispatch.call.body, self)
            outcome = reply if isinstance(reply, Failed) else await _read(dispatch, reply, self)
        except TransportError as error:
            outcome = Failed(fault=error.fault, sent=error.sent)
        if not isinstance(outcome, Flowing):
            self.close()
        return outcome

    def note_fault(self, fault: Fault) -> None:
        """Take note of a fault that no attempt returned: a timer's, or that of a stream that broke. Nobody asks for it here."""

    def close(self) -> None:
        """Let go; safe at any time."""
        reply, self.reply = self.reply, None
        if reply is not None:
            reply.close()


async def _reply_to(dispatch: Dispatch, body: bytes, holder: Holder) -> Reply | Failed:
    """Return the reply to one call, of which nothing but its head was read, or why it is no answer. Raises `TransportError`."""
    call, dialect, upstream_model = dispatch.call, dispatch.dialect, dispatch.edits.upstream_model
    outgoing = Outgoing(path=call.path, headers=call.headers, body=body)
    reply = holder.reply = await dispatch.transport.open(outgoing, on_sent=holder.note_sent)
    if not 200 <= reply.status < 300:
        said = await _error_body(reply, dispatch.now_s)
        failed = dialect.failure(reply.status, dict(reply.headers), said, upstream_model=upstream_model)
    else:
        holder.accepted = True
        holder.exhausted_ms = exhausted_by(reply.headers) or 0
        if not dispatch.stream or _is_event_stream(reply):
            return reply
        failed = dialect.not_a_stream(await _error_body(reply, dispatch.now_s), upstream_model=upstream_model)
    return failed if call.translation is None else call.translation.failed(failed)


async def _read(dispatch: Dispatch, reply: Reply, holder: Holder) -> Committed | Failed:
    translation = dispatch.call.translation
    if translation is None:
        if dispatch.stream:
            return await _commit(reply, dispatch.dialect.reader(dispatch.edits))
        return await _whole(dispatch, await reply.read(ANSWER_BYTES))
    if not dispatch.stream:
        return await _read_all(dispatch, translation, reply, holder)
    reader = translation.reader(dispatch.edits)
    calls = Calls(dispatch.call.further, partial(_reply_to, dispatch, holder=holder), dispatch.now_s)
    outcome = await _commit(Successive(reply, reader, calls), reader)
    return translation.failed(outcome) if isinstance(outcome, Failed) else outcome


async def _read_all(dispatch: Dispatch, translation: Translation, reply: Reply, holder: Holder) -> Answer | Failed:
    """Return the one answer to all calls, each made when the one before was answered."""
    further = iter(dispatch.call.further)
    room_bytes = ANSWER_BYTES
    while True:
        body = await reply.read(room_bytes)
        outcome = translation.take(body, dispatch.edits)
        if outcome is not None:
            return outcome
        room_bytes -= len(body)
        following = await _reply_to(dispatch, next(further), holder)
        if isinstance(following, Failed):
            return following
        reply = following


async def _whole(dispatch: Dispatch, body: bytes) -> Answer | Failed:
    if len(body) < LARGE_ANSWER_BYTES:
        return dispatch.dialect.answer(body, dispatch.edits)
    return await asyncio.to_thread(dispatch.dialect.answer, body, dispatch.edits)


async def _commit(reply: Reply, reader: StreamReader) -> Flowing | Failed:
    while True:
        piece = await reply.next()
        step = reader.feed(piece) if piece else reader.end()
        if step.committed:
            return Flowing(reply, reader, step, ended=not piece)
        if step.failed is not None:
            return step.failed
        if not piece:
            return Failed(fault=Fault.BAD_ANSWER, status=reply.status)


async def _error_body(reply: Reply, now_s: Callable[[], float]) -> bytes:
    """Return the beginning of a body that is no answer; one that breaks off, stalls or goes on for ever says nothing more."""
    reply.deadline_s = now_s() + ERROR_BODY_S
    pieces: list[bytes] = []
    length = 0
    try:
        while length < ERROR_BODY_BYTES and (piece := await reply.next()):
            pieces.append(piece)
            length += len(piece)
    except TransportError:
        return b"".join(pieces)
    return b"".join(pieces)


def _is_event_stream(reply: Reply) -> bool:
    return any(name == b"content-type" and value.lower().startswith(b"text/event-stream") for name, value in reply.headers)
