"""Completions of models that are served through chat: what a client sees, what their provider is sent, and what it all costs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import BUSY, CONTEXT, DONE, SSE, USAGE, Models, answers, completion, error, event, refuses, streams
from tests.integration.fallback.chain import FORGIVING, PRICE
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/completions"
TIMEOUTS = {"first_content": "2s", "idle": "500ms"}


def at(*providers: str, **fields: Any) -> dict[str, Any]:
    """A model with a slot at each of these providers, in this order."""
    deployments = [
        {"provider": name, "model": f"up-{name}", "max_concurrency": 1, "order": place} for place, name in enumerate(providers, 1)
    ]
    return {"deployments": deployments, "price": PRICE, "timeouts": TIMEOUTS, **fields}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    names = ("chat", "drained", "native")
    models = {
        "chatty": at("chat"),
        "drained": at("drained"),
        "native": at("native"),
        "mixed": at("chat", "native"),
        "blind": at("chat", capabilities={"logprobs": False}),
    }
    found = config(dict.fromkeys(names, "{upstream}"), models, breaker=FORGIVING)
    for name in ("chat", "drained"):
        found["providers"][name]["endpoints"] = ["chat"]
    found["providers"]["drained"]["on_disconnect"] = "drain"
    async with scene(Models(), found, valkey_server, tmp_path_factory.mktemp("over_chat")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def over_chat(shared: Scene) -> AsyncIterator[Scene]:
    shared.server.requests.clear()
    yield shared
    await shared.rest()


async def ask(scene: Scene, path: str = PATH, **fields: Any) -> httpx.Response:
    return await scene.ask(path=path, **{"model": "chatty", "fail_fast": True, **fields})


def sent(scene: Scene) -> list[tuple[str, Any]]:
    """Return what the providers were sent: the endpoint, and the prompt or the message."""
    found = []
    for request in scene.server.requests:
        body = msgspec.json.decode(request.body)
        found.append((request.path.removeprefix("/v1"), body["prompt"] if "prompt" in body else body["messages"][0]["content"]))
    return found


def said(text: str, finish: str = "stop", usage: Any = USAGE) -> list[bytes]:
    """The stream of one call."""
    return [event({"role": "assistant", "content": ""}), event({"content": text}), event({}, finish, usage=usage), DONE]


def by_prompt(**acts: Script) -> Script:
    """Make a script that does what its prompt's act does."""

    async def act(call: Call) -> None:
        await acts[msgspec.json.decode(call.request.body)["messages"][0]["content"]](call)

    return act


def payloads(answer: httpx.Response) -> list[Any]:
    """Return the events of a stream as values, its end mark as it stands."""
    found = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    return [each if each == "[DONE]" else msgspec.json.decode(each) for each in found]


def texts(answer: httpx.Response) -> dict[int, str]:
    """Return the text of each choice, of a stream or of a whole answer."""
    bodies = payloads(answer) if answer.headers["content-type"].startswith("text/event-stream") else [answer.json()]
    found: dict[int, str] = {}
    for body in bodies:
        for choice in body.get("choices", []) if body != "[DONE]" else []:
            found[choice["index"]] = found.get(choice["index"], "") + choice["text"]
    return found


async def row(scene: Scene) -> Any:
    return (await scene.run.rows())[0]


async def test_a_whole_answer(over_chat: Scene) -> None:
    answer = await ask(over_chat, prompt="Say hi", max_tokens=9)
    assert sent(over_chat) == [("/chat/completions", "Say hi")]
    request_id = answer.headers["x-request-id"]
    assert answer.json() == {
        "id": f"cmpl-{request_id}",
        "object": "text_completion",
        "created": 1,
        "system_fingerprint": answer.json()["system_fingerprint"],
        "model": "chatty",
        "service_tier": "default",
        "choices": [{"text": "Hello", "index": 0, "logprobs": None, "finish_reason": "stop"}],
        "usage": {**USAGE, "estimated_cost": 5e-05},
    }
    assert (answer.headers["x-gateway-model"], answer.headers["x-gateway-provider"]) == ("chatty", "chat")
    found = await row(over_chat)
    assert (found["request_id"], found["route"], found["outcome"], found["input_tokens"], found["output_tokens"]) == (
        request_id, "/v1/completions", "ok", 10, 20,
    )  # fmt: skip


@pytest.mark.parametrize("wants_usage", [True, False])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
async def test_a_stream_in_any_pieces(over_chat: Scene, end: bytes, wants_usage: bool) -> None:
    stream = b"".join(said("Hé")).replace(b"\n", end)

    async def act(call: Call) -> None:
        call.head(200, SSE)
        await call.write_apart(*(stream[place : place + 1] for place in range(len(stream))))
        call.close()

    over_chat.models.acts["chat"] = act
    answer = await ask(over_chat, prompt="Say hi", stream=True, stream_options={"include_usage": wants_usage}, echo=True)
    *events, end_mark = payloads(answer)
    assert end_mark == "[DONE]"
    assert [each["choices"][0]["text"] for each in events if each["choices"]] == ["Say hi", "Hé", ""]
    assert [each["usage"]["total_tokens"] for each in events if each.get("usage")] == [30] * wants_usage
    assert {each["id"] for each in events} == {f"cmpl-{answer.headers['x-request-id']}"}


async def test_usage_that_nobody_asked_for_is_on_the_finish_where_the_contract_has_it_there(over_chat: Scene) -> None:
    answer = await ask(over_chat, path="/deepinfra/v1/completions", prompt=["a", "b"], stream=True)
    *events, end_mark = payloads(answer)
    told = [(each["choices"][0]["finish_reason"], each["usage"]["total_tokens"]) for each in events if each.get("usage")]
    assert (end_mark, told) == ("[DONE]", [("stop", 60)])


@pytest.mark.parametrize("stream", [False, True])
class TestFallback:
    async def test_from_completions_to_chat_and_back(self, over_chat: Scene, stream: bool) -> None:
        over_chat.models.acts["native"] = refuses(503)
        there = await ask(over_chat, model=..., models=["native", "chatty"], prompt="p", stream=stream)
        assert (there.headers["x-gateway-model"], texts(there)) == ("chatty", {0: "Hello"})
        over_chat.models.acts = {"chat": refuses(429, BUSY), "native": native(stream)}
        back = await ask(over_chat, model=..., models=["chatty", "native"], prompt="p", stream=stream)
        assert (back.headers["x-gateway-model"], texts(back)) == ("native", {0: "raw"})
        chat, completions = ("/chat/completions", "p"), ("/completions", "p")
        assert sent(over_chat) == [completions, chat, chat, completions]

    async def test_inside_a_model_completions_come_first(self, over_chat: Scene, stream: bool) -> None:
        over_chat.models.acts["native"] = native(stream)
        assert texts(await ask(over_chat, model="mixed", prompt="p", stream=stream)) == {0: "raw"}
        over_chat.models.acts["native"] = refuses(500)
        assert texts(await ask(over_chat, model="mixed", prompt="p", stream=stream)) == {0: "Hello"}
        assert sent(over_chat) == [("/completions", "p"), ("/completions", "p"), ("/chat/completions", "p")]

    async def test_what_chat_cannot_say_stays_with_completions(self, over_chat: Scene, stream: bool) -> None:
        over_chat.models.acts["native"] = refuses(500)
        answer = await ask(over_chat, model="mixed", prompt=[1, 2], stream=stream)
        assert answer.status_code == 502
        assert sent(over_chat) == [("/completions", [1, 2])]

    async def test_a_part_that_fails_before_the_commit_leads_on_with_all_parts(self, over_chat: Scene, stream: bool) -> None:
        over_chat.models.acts = {"chat": by_prompt(one=refuses(500)), "native": native(stream)}
        answer = await ask(over_chat, model=..., models=["chatty", "native"], prompt=["one", "two"], stream=stream)
        assert texts(answer) == {0: "raw"}
        assert sent(over_chat) == [("/chat/completions", "one"), ("/completions", ["one", "two"])]


def native(stream: bool) -> Script:
    """A provider of completions: one choice, whatever it is asked."""
    choice = {"index": 0, "text": "raw", "finish_reason": "stop", "logprobs": None}
    return streams(event({}, choices=[choice]), DONE) if stream else answers(choices=[choice])


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("prompt", {"prompt": [1, 2]}),
        ("prompt", {"prompt": [[1], [2]]}),
        ("prompt", {"prompt": ""}),
        ("prompt", {"prompt": ["a", ""]}),
        ("prompt", {"prompt": []}),
        ("suffix", {"suffix": "end"}),
        ("best_of", {"best_of": 3}),
        ("best_of", {"best_of": 2, "n": 3}),
        ("echo", {"echo": True, "logprobs": 0}),
        ("data", {"data": {"video": ["data:video/mp4;base64,AAAA"]}}),
        ("data", {"data": {"image": ["data:image/png;base64,AAAA"]}, "prompt": ["a", "b"]}),
    ],
)
async def test_what_chat_cannot_say_is_refused_by_field_and_model(over_chat: Scene, field: str, fields: dict[str, Any]) -> None:
    for stream in (False, True):
        answer = await ask(over_chat, stream=stream, **fields)
        told = answer.json()["error"]
        assert (answer.status_code, told["type"], told["param"]) == (400, "invalid_request_error", field)
        assert told["code"] == ("unsupported_prompt" if field == "prompt" else "unsupported_parameter")
        assert "'chatty'" in told["message"]
        assert "served through chat completions" in told["message"]
    assert sent(over_chat) == []


async def test_what_the_model_cannot_do_is_refused_as_ever(over_chat: Scene) -> None:
    answer = await ask(over_chat, model="blind", logprobs=1)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "logprobs")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_that_refuses_is_told_in_the_clients_words(over_chat: Scene, stream: bool, inside: bool) -> None:
    within = streams(b"data: " + CONTEXT + b"\n\n") if stream else refuses(200, CONTEXT)
    over_chat.models.acts["chat"] = within if inside else refuses(400, CONTEXT)
    answer = await ask(over_chat, stream=stream)
    told = answer.json()["error"]
    assert (answer.status_code, told["code"], told["param"]) == (400, "context_length_exceeded", "prompt")


class Together:
    """Counts how many calls are under way at once."""

    def __init__(self) -> None:
        self.most = self._now = 0

    def counting(self, script: Script) -> Script:
        async def act(call: Call) -> None:
            self._now += 1
            self.most = max(self.most, self._now)
            await asyncio.sleep(0.01)
            self._now -= 1
            await script(call)

        return act


@pytest.mark.parametrize("stream", [False, True])
async def test_several_prompts_are_one_request_in_one_slot(over_chat: Scene, stream: bool) -> None:
    together = Together()

    def does(text: str, finish: str, usage: dict[str, int]) -> Script:
        choice = {"index": 0, "message": {"content": text}, "finish_reason": finish}
        whole = answers(choices=[choice], usage=usage)
        return together.counting(streams(*said(text, finish, usage)) if stream else whole)

    over_chat.models.acts["chat"] = by_prompt(
        one=does("A", "stop", {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}),
        two=does("B", "length", {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}),
    )
    prompts = ["one", "two", "two", "one", "two"]
    answer = await ask(over_chat, prompt=prompts, stream=stream, stream_options={"include_usage": True} if stream else ...)
    assert texts(answer) == {place: {"one": "A", "two": "B"}[prompt] for place, prompt in enumerate(prompts)}
    usage = payloads(answer)[-2]["usage"] if stream else answer.json()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (21, 26, 47)
    assert usage["estimated_cost"] == pytest.approx(21e-6 + 26 * 2e-6)
    assert answer.text.count("[DONE]") == stream
    assert sent(over_chat) == [("/chat/completions", prompt) for prompt in prompts]
    assert together.most == 1
    rows = await over_chat.run.rows()
    assert (rows[0]["request_id"], rows[0]["input_tokens"], rows[0]["output_tokens"]) == (answer.headers["x-request-id"], 21, 26)
    assert rows[1]["request_id"] != rows[0]["request_id"]


async def test_a_part_whose_body_does_not_end_keeps_nobody_waiting(over_chat: Scene) -> None:
    async def endless(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for each in said("A"):
            call.piece(each)
        await call.gone.wait()

    over_chat.models.acts["chat"] = by_prompt(one=endless, two=streams(*said("B")))
    answer = await ask(over_chat, prompt=["one", "two"], stream=True)
    assert (texts(answer), answer.text.count("[DONE]")) == ({0: "A", 1: "B"}, 1)


BROKEN: dict[str, Script] = {
    "refused": refuses(429, BUSY),
    "failed": refuses(500, error("boom")),
    "no stream": refuses(200, completion()),
    "cut": streams(event({"content": "B"}), then=Call.reset),
    "error inside": streams(event({"content": "B"}), b'data: {"error":{"code":502,"message":"lost"}}\n\n'),
    "nothing said": streams(DONE),
    "no end": streams(event({"content": "B"})),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_part_that_breaks_ends_the_whole_stream(over_chat: Scene, how: str) -> None:
    over_chat.models.acts["chat"] = by_prompt(one=streams(*said("A")), two=BROKEN[how])
    answer = await ask(over_chat, prompt=["one", "two", "one"], stream=True)
    assert answer.status_code == 200
    assert payloads(answer)[-1]["error"]["code"] == "stream_interrupted"
    assert "[DONE]" not in answer.text
    assert texts(answer)[0] == "A"
    assert sent(over_chat) == [("/chat/completions", "one"), ("/chat/completions", "two")]
    found = await row(over_chat)
    assert found["outcome"] == "interrupted"
    assert found["output_tokens"] > 0


@pytest.mark.parametrize("how", ["refused", "failed"])
async def test_a_part_that_fails_fails_a_whole_answer(over_chat: Scene, how: str) -> None:
    over_chat.models.acts["chat"] = by_prompt(one=answers(), two=BROKEN[how])
    answer = await ask(over_chat, prompt=["one", "two", "one"])
    assert answer.status_code == (429 if how == "refused" else 502)
    assert len(sent(over_chat)) == 2


async def test_a_part_that_stalls_is_cut(over_chat: Scene) -> None:
    async def stalls(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "B"}))
        await call.gone.wait()

    over_chat.models.acts["chat"] = by_prompt(one=streams(*said("A")), two=stalls)
    answer = await ask(over_chat, prompt=["one", "two"], stream=True)
    assert texts(answer) == {0: "A", 1: "B"}
    assert payloads(answer)[-1]["error"]["code"] == "upstream_timeout"


@pytest.mark.parametrize("model", ["chatty", "drained"])
@pytest.mark.parametrize("stream", [False, True])
async def test_nobody_is_asked_for_a_client_that_has_left(over_chat: Scene, model: str, stream: bool) -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def waits(call: Call) -> None:
        begun.set()
        await call.gone.wait()
        gone.set()

    first = streams(*said("A")) if stream else answers()
    over_chat.models.acts = dict.fromkeys(("chat", "drained"), by_prompt(one=first, two=waits))
    asking = asyncio.create_task(ask(over_chat, model=model, prompt=["one", "two", "one"], stream=stream))
    async with asyncio.timeout(5.0):
        await begun.wait()
        asking.cancel()
        await gone.wait()
    found = await row(over_chat)
    assert (found["outcome"], len(sent(over_chat)), await over_chat.run.leases()) == ("cancelled", 2, 0)
