"""A client that makes no room while comments and an answer both want to begin, over plain ASGI messages."""

import asyncio
from typing import Any

from gateway.errors import EngineOverloaded
from gateway.tasks import Owned
from gateway.watch import Sweep
from gateway.web.client import Buffered, Client, Io
from gateway.web.keepalive import COMMENT

EARLY = [(b"x-head", b"early")]
USUAL = [(b"x-head", b"usual")]


class Connection:
    """Takes a message once there is room."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.asked = asyncio.Event()
        self.room = asyncio.Event()

    async def receive(self) -> Any:
        await asyncio.get_running_loop().create_future()

    async def send(self, message: Any) -> None:
        self.asked.set()
        await self.room.wait()
        self.sent.append(message)

    def heads(self) -> list[Any]:
        return [message["headers"] for message in self.sent if message["type"] == "http.response.start"]


def client_of(connection: Connection) -> Client:
    return Client(Io({}, connection.receive, connection.send), Sweep(lambda: 0.0).open(), Buffered(1))


async def test_a_comment_that_waits_for_room_gives_way_to_the_answer() -> None:
    connection, tasks = Connection(), Owned()
    client = client_of(connection)
    client.keep_alive(0.001, lambda: EARLY, tasks)
    await connection.asked.wait()
    answering = asyncio.create_task(client.start(USUAL))
    await asyncio.sleep(0)
    connection.room.set()
    await answering
    await client.finish(b"")
    client.close()
    assert connection.heads() == [USUAL]
    assert await tasks.drain(1.0)


async def test_a_refusal_before_the_first_comment_is_out_has_its_own_head() -> None:
    connection, tasks = Connection(), Owned()
    client = client_of(connection)
    client.keep_alive(0.001, lambda: EARLY, tasks)
    await connection.asked.wait()
    refusing = asyncio.create_task(client.refuse(EngineOverloaded(retry_after_ms=1), []))
    await asyncio.sleep(0)
    connection.room.set()
    await refusing
    assert [message.get("status") for message in connection.sent] == [429, None]
    assert await tasks.drain(1.0)


async def test_nothing_is_said_behind_the_end() -> None:
    connection, tasks = Connection(), Owned()
    connection.room.set()
    client = client_of(connection)
    client.keep_alive(0.001, lambda: EARLY, tasks)
    await connection.asked.wait()
    await client.start(USUAL)
    connection.asked.clear()
    await connection.asked.wait()
    await client.finish(b"data: [DONE]\n\n")
    assert connection.heads() == [EARLY]
    assert await tasks.drain(1.0)
    bodies = [message["body"] for message in connection.sent if "body" in message]
    assert bodies[-1] == b"data: [DONE]\n\n"
    assert set(bodies[:-1]) == {COMMENT}
