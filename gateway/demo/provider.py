"""One demo provider as an ASGI application: it answers by script, notices who leaves, and shows what it has seen."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

import msgspec

from gateway.demo.acts import JSON, Act, streamed, whole
from gateway.demo.replies import Question, Reply, encode, failure, models
from gateway.demo.scripts import SCRIPTS, Script, script
from gateway.tasks import Owned

BODY_BYTES = 10 << 20
MOST_OPEN = 2_000
MOST_SEEN = 64
MODELS_CREATED_S = 1_700_000_000

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


class Seen(msgspec.Struct, frozen=True):
    """One request as it arrived, without its credential."""

    path: str
    headers: dict[str, str]
    body: msgspec.Raw


class State(msgspec.Struct):
    """What a test may ask of a provider: requests open now and at most, answered in full, left by clients, broken by script."""

    open: int = 0
    most_open: int = 0
    answered: int = 0
    aborted: int = 0
    broken: int = 0


class Place:
    """What a request takes of a provider, left when its last piece goes out: its client may be back with the next by then."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._left = False
        state.open += 1
        state.most_open = max(state.most_open, state.open)

    def leave(self) -> None:
        """Leave it; once."""
        if not self._left:
            self._left = True
            self._state.open -= 1


class Refused(Exception):  # noqa: N818 - it is an answer, not an error of this program
    """The answer is an error."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class Provider:
    """The demo models behind one base URL. `GET /demo/state` tells its `State` and the last requests seen."""

    def __init__(self, name: str, *, key: str | None = None) -> None:
        self.name = name
        self.state = State()
        self.seen: deque[Seen] = deque(maxlen=MOST_SEEN)
        self._key = key
        self._number = 0
        self._tasks = Owned()

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Serve one request."""
        routes = {
            ("GET", "/demo/state"): self._tell_state,
            ("GET", "/v1/models"): self._tell_models,
            ("POST", "/v1/chat/completions"): self._complete,
            ("POST", "/v1/completions"): self._complete,
        }
        route = routes.get((scope["method"], scope["path"]))
        try:
            if route is None:
                raise Refused(404, failure(f"No such endpoint: {scope['method']} {scope['path']}", code="unknown_url"))
            await route(scope, receive, send)
        except Refused as refused:
            await answer(send, refused.status, refused.body)

    async def _tell_state(self, _scope: Event, _receive: Receive, send: Send) -> None:
        await answer(send, 200, encode({**msgspec.to_builtins(self.state), "seen": list(self.seen)}))

    async def _tell_models(self, scope: Event, _receive: Receive, send: Send) -> None:
        self._authenticate(scope)
        await answer(send, 200, models(list(SCRIPTS), MODELS_CREATED_S))

    async def _complete(self, scope: Event, receive: Receive, send: Send) -> None:
        self._authenticate(scope)
        if self.state.open >= MOST_OPEN:
            raise Refused(429, failure("Too many requests at once", kind="rate_limit_error", code="rate_limit_exceeded"))
        body = await read(receive)
        question, behaviour = understand(scope["path"], body)
        self._see(scope, body)
        place = Place(self.state)
        try:
            await self._while_connected(self._reply(question, behaviour, send, place), receive)
        finally:
            place.leave()

    async def _while_connected(self, work: Coroutine[Any, Any, None], receive: Receive) -> None:
        """Do the work, and drop it when the client leaves."""
        working, leaving = self._tasks.spawn(work, name="reply"), self._tasks.spawn(departure(receive), name="client")
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            leaving.cancel()
            await working
        else:
            working.cancel()
            self.state.aborted += 1

    async def _reply(self, question: Question, behaviour: Script, send: Send, place: Place) -> None:
        if behaviour.status != 200:
            raise Refused(behaviour.status, refusal(behaviour.status))
        self._number += 1
        reply = Reply(question, behaviour, provider=self.name, number=self._number, created_s=int(time.time()))
        act = streamed(reply, behaviour) if question.stream else whole(reply, behaviour)
        await perform(act, send, place)
        if act.breaks:
            self.state.broken += 1
        else:
            self.state.answered += 1

    def _authenticate(self, scope: Event) -> None:
        credentials = [value for name, value in scope["headers"] if name == b"authorization"]
        if self._key is not None and credentials != [f"Bearer {self._key}".encode()]:
            raise Refused(401, failure("Incorrect API key provided", code="invalid_api_key"))

    def _see(self, scope: Event, body: bytes) -> None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"] if name != b"authorization"
        }
        self.seen.append(Seen(path=scope["path"], headers=headers, body=msgspec.Raw(body)))


def refusal(status: int) -> bytes:
    """Return the body of an answer with this status, in the words that providers document."""
    if status == 429:
        return failure("Model busy, retry later", code="engine_overloaded")
    return failure(f"The demo model answers {status} by script", kind="server_error", code="demo_failure")


def understand(path: str, body: bytes) -> tuple[Question, Script]:
    """Return the question of this body and what its model does. Raises Refused."""
    try:
        question = msgspec.json.decode(body, type=Question)
    except msgspec.DecodeError as error:
        raise Refused(400, failure(str(error), code="invalid_value")) from None
    field, other = ("messages", "prompt") if path.endswith("/chat/completions") else ("prompt", "messages")
    if getattr(question, field) is None or getattr(question, other) is not None:
        raise Refused(400, failure(f"{path} takes '{field}'", code="missing_required_parameter", param=field))
    behaviour = script(question.model)
    if behaviour is None:
        raise Refused(404, failure(f"The model '{question.model}' does not exist", code="model_not_found", param="model"))
    return question, behaviour


async def read(receive: Receive) -> bytes:
    """Return the body of a request. Raises Refused where it is too large."""
    body = bytearray()
    more = True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
        if len(body) > BODY_BYTES:
            raise Refused(413, failure("The request is too large", code="request_too_large"))
    return bytes(body)


async def departure(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def perform(act: Act, send: Send, place: Place) -> None:
    """Send an answer in its own time. One that breaks just ends: the server then cuts the connection."""
    started = False
    for number, (pause_ms, piece) in enumerate(act.pieces, 1):
        await asyncio.sleep(pause_ms / 1000)
        if number == len(act.pieces):
            place.leave()
        if not started:
            await send({"type": "http.response.start", "status": 200, "headers": act.headers})
            started = True
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    if not act.breaks:
        await send({"type": "http.response.body", "body": b""})


async def answer(send: Send, status: int, body: bytes) -> None:
    """Send a whole answer."""
    await send({"type": "http.response.start", "status": status, "headers": [JSON, (b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
