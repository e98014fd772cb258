"""Case FB-08: whose fault an upstream's error is, by the wire contract's table (6.4): every shape, every status, in every place.

What is not the client's leads to the next provider; where none is left, the client hears the gateway's own words. Of the
provider's nothing is told that gives it away.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import JSON, Models, refuses, streams
from tests.field.shapes import ALL, GIVEN_AWAY, NUMBERED, SPOKEN, WORDED, WORDLESS, Error, Shape, bytes_of, empty, html, openai
from tests.integration.fallback.chain import chain
from tests.integration.scene import Scene, scene
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

End = tuple[int, str]

CLIENT: End = (0, "")
"""The client's own fault: nobody else is asked, and its status is the provider's."""

CLIENTS = (400, 404, 413, 422)

BUSY: End = (429, "engine_overloaded")
ACCOUNT: End = (502, "upstream_auth_error")
FAILED: End = (502, "upstream_unavailable")
LATE: End = (504, "upstream_timeout")
NO_ANSWER: End = (502, "upstream_bad_response")

STATUSES: dict[int, End] = {
    **dict.fromkeys(CLIENTS, CLIENT),
    **dict.fromkeys((401, 402, 403), ACCOUNT),
    **dict.fromkeys((408, 504, 524), LATE),
    **dict.fromkeys((423, 429, 498, 503, 529), BUSY),
    **dict.fromkeys((302, 405, 409, 500, 520), FAILED),
}
"""One of each kind and those of a meaning of their own; all of them stand in the contract's test of the same table."""

INSIDE = {number: STATUSES[number] for number in (400, 404, 422, 401, 402, 504, 429, 503, 500)}

WORDS: dict[str, End] = {
    "engine_overloaded": BUSY,
    "server_is_overloaded": BUSY,
    "overloaded_error": BUSY,
    "rate_limit_exceeded": BUSY,
    "resource_exhausted": BUSY,
    "insufficient_quota": ACCOUNT,
    "billing_error": ACCOUNT,
    "invalid_api_key": ACCOUNT,
    "authentication_error": ACCOUNT,
    "unauthenticated": ACCOUNT,
    "model_not_found": FAILED,
    "server_error": FAILED,
    "internal": FAILED,
    "timeout_error": LATE,
    "context_length_exceeded": (400, "context_length_exceeded"),
    "content_filter": (400, "content_filter"),
    "a_word_that_nobody_knows": NO_ANSWER,
}
"""What an error means that has no number, by the word that names it."""

TEXTS: dict[str, End] = {
    "Model busy, retry later": BUSY,
    "No capacity at the moment": BUSY,
    "This model's maximum context length is 10 tokens": (400, "context_length_exceeded"),
    "It did not work": NO_ANSWER,
}
"""The same by what it tells people, where it has neither number nor word."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    settings = chain(fallback={"retry_budget": 1})
    async with scene(Models(), settings, valkey_server, tmp_path_factory.mktemp("table")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def walk(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


def says(script: Callable[[bytes], Script], body: bytes) -> Script:
    """Make a script that says this of the model that it is asked for."""

    async def act(call: Call) -> None:
        model = msgspec.json.decode(call.request.body)["model"]
        credential = (call.request.header("authorization") or "").removeprefix("Bearer ")
        await script(body.replace(b"UPMODEL", model.encode()).replace(b"UPKEY", credential.encode()))(call)

    return act


def refusing(status: int, body: bytes) -> Script:
    """Make a script that refuses with this status and body."""
    return says(lambda body: refuses(status, body, openai_organization="org-AbC123456", server="worker-3"), body)


async def check(script: Script, end: End, walk: Scene, *, stream: bool, status: int = 400) -> None:
    """Assert what becomes of a request whose two providers both answer like this, and what its client hears."""
    walk.models.acts.update({"T1": script, "T2": script})
    walk.models.asked.clear()
    answer = await walk.ask(model="T", stream=stream, fail_fast=True)
    told, error = f"{answer.text} {answer.headers}", answer.json()["error"]
    assert not [word for word in GIVEN_AWAY if word in told]
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.status_code == (end[0] or status)
    assert end is CLIENT or error["code"] == end[1]
    assert walk.models.asked == (["T1"] if answer.status_code in CLIENTS else ["T1", "T2"])
    # Whoever failed is left alone for a millisecond from when the store has heard of it.
    await walk.run.settled()
    await asyncio.sleep(0.002)


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.__name__)
async def test_fb_08_by_its_status(shape: Shape, walk: Scene) -> None:
    for status, end in STATUSES.items():
        body = bytes_of(shape, Error(status, "", "It did not work"))
        # A 404 that says nothing is the address's or the model's, which the client never named.
        whose = FAILED if status == 404 and shape in WORDLESS else end
        await check(refusing(status, body), whose, walk, stream=status % 2 == 0, status=status)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_fb_08_a_status_means_the_same_of_an_answer_and_of_a_stream(stream: bool, walk: Scene) -> None:
    for status, end in STATUSES.items():
        body = bytes_of(openai, Error(status, "", "It did not work"))
        await check(refusing(status, body), end, walk, stream=stream, status=status)


def inside(body: bytes) -> dict[str, tuple[bool, Script]]:
    """Return the places where an error may come with a 200: as the answer, in the place of a stream, as an event of one."""
    whole = refusing(200, body)
    event = says(lambda body: streams(b"data: " + body + b"\n\n"), body)
    return {"whole": (False, whole), "no stream": (True, whole), "event": (True, event)}


@pytest.mark.parametrize("place", inside(b""))
@pytest.mark.parametrize("shape", NUMBERED, ids=lambda shape: shape.__name__)
async def test_fb_08_by_its_number_inside_a_200(shape: Shape, place: str, walk: Scene) -> None:
    for number, end in INSIDE.items():
        stream, script = inside(bytes_of(shape, Error(number, "", "It did not work")))[place]
        await check(script, end, walk, stream=stream, status=number)


@pytest.mark.parametrize("place", ["whole", "event"])
@pytest.mark.parametrize("shape", WORDED, ids=lambda shape: shape.__name__)
async def test_fb_08_by_its_words_inside_a_200(shape: Shape, place: str, walk: Scene) -> None:
    for word, end in WORDS.items():
        stream, script = inside(bytes_of(shape, Error(0, word, "It did not work")))[place]
        await check(script, end, walk, stream=stream)


@pytest.mark.parametrize("place", ["whole", "event"])
@pytest.mark.parametrize("shape", SPOKEN, ids=lambda shape: shape.__name__)
async def test_fb_08_by_its_text_inside_a_200(shape: Shape, place: str, walk: Scene) -> None:
    for text, end in TEXTS.items():
        stream, script = inside(bytes_of(shape, Error(0, "", text)))[place]
        await check(script, end, walk, stream=stream)


@pytest.mark.parametrize("place", ["whole", "no stream", "event"])
async def test_fb_08_what_is_no_error_and_no_answer_either(place: str, walk: Scene) -> None:
    error = Error(500, "server_error", "It did not work")
    for body in (bytes_of(html, error), bytes_of(empty, error), b"null", b"[]", b"{", b'"'):
        stream, script = inside(body)[place]
        await check(script, NO_ANSWER, walk, stream=stream)


ACCOUNT_AS_CLIENTS = (
    "Your credit balance is too low to access the API",
    "Insufficient balance",
    "This organization has been disabled.",
    "API key not valid. Please pass a valid API key.",
    "Incorrect API key provided: sk-up-0123456789",
)


@pytest.mark.parametrize("shape", SPOKEN, ids=lambda shape: shape.__name__)
async def test_fb_08_our_own_account_in_the_words_for_a_clients_fault(shape: Shape, walk: Scene) -> None:
    for text in ACCOUNT_AS_CLIENTS:
        body = bytes_of(shape, Error(400, "", text))
        await check(refusing(400, body), ACCOUNT, walk, stream=False)


async def test_fb_08_no_model_of_ours_is_not_the_clients(walk: Scene) -> None:
    for text in (
        "The model `UPMODEL` does not exist",
        "model: UPMODEL",
        "models/UPMODEL is not found",
        "No endpoints found for UPMODEL.",
    ):
        await check(refusing(404, bytes_of(openai, Error(404, "", text))), FAILED, walk, stream=False)


async def head_alone(call: Call) -> None:
    """Announce an explanation that never comes."""
    call.head(503, JSON, length=100)
    call.write(b'{"err')
    call.close()


async def test_fb_08_an_explanation_that_breaks_off(walk: Scene) -> None:
    await check(head_alone, BUSY, walk, stream=False)
