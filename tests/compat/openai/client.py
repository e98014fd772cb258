"""The official OpenAI client for Python, sync and async."""

import asyncio
import json
from functools import partial
from typing import Any

import openai  # type: ignore[import-not-found]

from tests.compat import scenarios
from tests.compat.scenarios import (
    BUSY,
    CALLS,
    FAILING,
    FLAKY,
    GREETING,
    LATE,
    LONG,
    MESSAGES,
    NATIVE,
    SCHEMA,
    SILENT,
    SYSTEM,
    TEXT,
    TOOL,
    VECTORS,
    answered,
    arguments,
    broken,
    chosen,
    holds,
    late,
    raised,
    same,
)

SHORT: Any = {"model": TEXT, "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
RESPOND: Any = {"model": TEXT, "instructions": SYSTEM, "input": GREETING, "max_output_tokens": 12, "temperature": 0}
USAGE = {"include_usage": True}


def tokens(usage: Any) -> tuple[int, int, int]:
    return usage.prompt_tokens, usage.completion_tokens, usage.total_tokens


class Scenarios:
    """Every public method is one."""

    def __init__(self, told: scenarios.Told) -> None:
        self._url = f"{told.url}/v1"
        self._client = self._as(told.secret)
        self._chat = self._client.chat.completions
        self._told = told
        self._calling: Any = {
            **SHORT,
            "model": CALLS,
            "max_tokens": 200,
            "tools": [TOOL],
            "tool_choice": "required",
            "parallel_tool_calls": False,
        }
        self._responses = self._client.responses
        self._calling_back: Any = {
            **RESPOND,
            "model": CALLS,
            "max_output_tokens": 200,
            "tools": [{"type": "function", **TOOL["function"]}],
            "tool_choice": "required",
            "parallel_tool_calls": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "choice", "schema": SCHEMA, "strict": True}}
        self._choosing: Any = {**SHORT, "max_tokens": 200, "response_format": form}

    def chat(self) -> None:
        answer = self._chat.create(**SHORT)
        answered(answer.choices[0].message.content, answer.choices[0].finish_reason, tokens(answer.usage))
        same("model", answer.model, TEXT)
        same("tier", answer.service_tier, "default")
        holds("request id", answer._request_id, answer._request_id)

    def chat_stream(self) -> None:
        chunks = list(self._chat.create(**SHORT, stream=True))
        self._streamed(chunks)
        holds("usage that nobody asked for", not any(chunk.usage for chunk in chunks), chunks)

    def chat_stream_with_usage(self) -> None:
        *chunks, last = self._chat.create(**SHORT, stream=True, stream_options=USAGE)
        text = self._streamed(chunks)
        answered(text, "length", tokens(last.usage))
        same("choices beside the usage", last.choices, [])

    def chat_over_messages(self) -> None:
        answer = self._chat.create(**SHORT | {"model": NATIVE})
        answered(answer.choices[0].message.content, answer.choices[0].finish_reason, tokens(answer.usage))

    def chat_stream_over_messages(self) -> None:
        self._streamed(list(self._chat.create(**SHORT | {"model": NATIVE}, stream=True)), NATIVE)

    def chat_stream_left(self) -> None:
        with self._chat.create(**SHORT | {"max_tokens": 2_000}, stream=True) as stream:
            next(iter(stream))

    def choices(self) -> None:
        answer = self._chat.create(**SHORT, n=2)
        same("choices", [choice.index for choice in answer.choices], [0, 1])

    def logprobs(self) -> None:
        found = self._chat.create(**SHORT, logprobs=True, top_logprobs=3).choices[0].logprobs.content
        holds("tokens with probabilities", found and {len(token.top_logprobs) for token in found} == {3}, found)

    async def async_chat(self) -> None:
        async with self._async() as client:
            answer = await client.chat.completions.create(**SHORT)
        answered(answer.choices[0].message.content, answer.choices[0].finish_reason, tokens(answer.usage))

    async def async_chat_streams_at_once(self) -> None:
        async with self._async() as client:
            streams = await asyncio.gather(*(client.chat.completions.create(**SHORT, stream=True) for _ in range(32)))
            for stream in streams:
                self._streamed([chunk async for chunk in stream])

    async def async_chat_stream(self) -> None:
        async with self._async() as client:
            self._streamed([chunk async for chunk in await client.chat.completions.create(**SHORT, stream=True)])

    def tools(self) -> None:
        choice = self._chat.create(**self._calling).choices[0]
        same("end", choice.finish_reason, "tool_calls")
        [call] = choice.message.tool_calls
        arguments(call.function.name, call.function.arguments)

    def tools_stream(self) -> None:
        with self._chat.stream(**self._calling) as stream:
            choice = stream.get_final_completion().choices[0]
        same("end", choice.finish_reason, "tool_calls")
        [call] = choice.message.tool_calls
        arguments(call.function.name, call.function.arguments)

    def tools_answered(self) -> None:
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"unit": "celsius"}'}}
        said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": "21"}]
        answer = self._chat.create(**SHORT | {"messages": [*MESSAGES, *said], "tools": [TOOL]})
        answered(answer.choices[0].message.content, answer.choices[0].finish_reason, tokens(answer.usage))

    def schema(self) -> None:
        chosen(json.loads(self._chat.create(**self._choosing).choices[0].message.content))

    def schema_stream(self) -> None:
        with self._chat.stream(**self._choosing) as stream:
            events = {event.type for event in stream}
            chosen(json.loads(stream.get_final_completion().choices[0].message.content))
        holds("events", {"chunk", "content.delta", "content.done"} <= events, events)

    def completion(self) -> None:
        answer = self._client.completions.create(model=TEXT, prompt=GREETING, max_tokens=12, temperature=0)
        answered(answer.choices[0].text, answer.choices[0].finish_reason, tokens(answer.usage))

    def completion_stream(self) -> None:
        stream = self._client.completions.create(
            model=TEXT, prompt=GREETING, max_tokens=12, temperature=0, stream=True, stream_options=USAGE
        )
        *chunks, last = stream
        ends = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
        same("ends", ends, ["length"])
        answered("".join(choice.text for chunk in chunks for choice in chunk.choices), "length", tokens(last.usage))

    def completion_of_two_prompts(self) -> None:
        answer = self._client.completions.create(model=TEXT, prompt=["Once", "Twice"], max_tokens=12, temperature=0)
        same("choices", [choice.index for choice in answer.choices], [0, 1])

    def response(self) -> None:
        self._responded(self._responses.create(**RESPOND))

    def response_stream(self) -> None:
        self._responses_streamed(list(self._responses.create(**RESPOND, stream=True)))

    def response_stream_left(self) -> None:
        with self._responses.create(**RESPOND | {"max_output_tokens": 2_000}, stream=True) as stream:
            next(event for event in stream if event.type == "response.output_text.delta")

    async def async_response(self) -> None:
        async with self._async() as client:
            self._responded(await client.responses.create(**RESPOND))

    async def async_response_streams_at_once(self) -> None:
        async with self._async() as client:
            streams = await asyncio.gather(*(client.responses.create(**RESPOND, stream=True) for _ in range(8)))
            for stream in streams:
                self._responses_streamed([event async for event in stream])

    def response_tools(self) -> None:
        [call] = self._responses.create(**self._calling_back).output
        arguments(call.name, call.arguments)

    def response_tools_stream(self) -> None:
        events = list(self._responses.create(**self._calling_back, stream=True))
        [call] = [event.item for event in events if event.type == "response.output_item.done"]
        arguments(call.name, call.arguments)
        told = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
        same("arguments, piece by piece", json.loads(told), json.loads(call.arguments))

    def response_to_a_turn(self) -> None:
        before = [item.model_dump(exclude_none=True) for item in self._responses.create(**RESPOND).output]
        turns = [{"role": "user", "content": GREETING}, *before, {"role": "user", "content": "Go on."}]
        self._responded(self._responses.create(**RESPOND | {"input": turns}))

    def response_of_what_has_none(self) -> None:
        error = raised(openai.BadRequestError, lambda: self._responses.create(**RESPOND | {"model": NATIVE}))
        same("code", (error.code, error.param), ("unsupported_parameter", "model"))

    def response_to_a_long_prompt(self) -> None:
        for stream in (False, True):
            ask = partial(self._responses.create, **RESPOND | {"input": LONG, "stream": stream})
            same("code", raised(openai.BadRequestError, ask).code, "context_length_exceeded")

    def embeddings(self) -> None:
        whole = self._client.embeddings.create(model=VECTORS, input=["one", GREETING])
        plain = self._client.embeddings.create(model=VECTORS, input=["one", GREETING], encoding_format="float")
        same("vectors", [(vector.index, len(vector.embedding)) for vector in whole.data], [(0, 64), (1, 64)])
        near = zip(whole.data[1].embedding, plain.data[1].embedding, strict=True)
        holds("vectors of one text", all(abs(one - other) < 1e-4 for one, other in near), "differ by their encoding")
        holds("tokens", whole.usage.prompt_tokens == whole.usage.total_tokens > 0, whole.usage)

    def models(self) -> None:
        listed = [model.id for model in self._client.models.list()]
        holds("models", {TEXT, VECTORS} <= set(listed), listed)
        same("one model", self._client.models.retrieve(TEXT).id, TEXT)

    def wrong_key(self) -> None:
        wrong = self._as("sk-wrong-0123456789")
        error = raised(openai.AuthenticationError, lambda: wrong.chat.completions.create(**SHORT))
        same("code", error.code, "invalid_api_key")

    def unknown_model(self) -> None:
        error = raised(openai.NotFoundError, lambda: self._chat.create(**SHORT | {"model": "none"}))
        same("code", (error.code, error.param), ("model_not_found", "model"))

    def bad_field(self) -> None:
        error = raised(openai.UnprocessableEntityError, lambda: self._chat.create(**SHORT | {"temperature": 9}))
        same("code", (error.code, error.param), ("out_of_range", "temperature"))

    def long_prompt(self) -> None:
        said = [{"role": "user", "content": LONG}]
        for stream in (False, True):
            ask = partial(self._chat.create, **SHORT | {"messages": said, "stream": stream})
            same("code", raised(openai.BadRequestError, ask).code, "context_length_exceeded")

    def rate_limit(self) -> None:
        patient = self._as(self._told.poor).with_options(max_retries=2)
        error = raised(openai.RateLimitError, lambda: patient.chat.completions.create(**SHORT))
        same("code", error.code, "rate_limit_exceeded")
        same("retries of what never fits", error.request.headers["x-stainless-retry-count"], "0")

    def no_room(self) -> None:
        busy: Any = SHORT | {"model": BUSY, "extra_body": {"fail_fast": True}}
        error = raised(openai.RateLimitError, lambda: self._chat.create(**busy))
        same("code", error.code, "engine_overloaded")

    def provider_fails(self) -> None:
        error = raised(openai.InternalServerError, lambda: self._chat.create(**SHORT | {"model": FAILING}))
        same("code", (error.status_code, error.code), (502, "upstream_unavailable"))

    def broken_stream(self) -> None:
        chunks = self._chat.create(**SHORT | {"model": FLAKY}, stream=True)
        error = broken(openai.APIError, (chunk.choices[0].delta.content or "" for chunk in chunks))
        same("error event", (type(error).__name__, error.code), ("APIError", "stream_interrupted"))

    def commented_stream(self) -> None:
        late(
            "".join(
                chunk.choices[0].delta.content or "" for chunk in self._patient.create(**SHORT | {"model": LATE}, stream=True)
            )
        )

    def commented_failure(self) -> None:
        stream = self._patient.create(**SHORT | {"model": SILENT}, stream=True)
        error = raised(openai.APIError, partial(list, stream))
        same("error event", (type(error).__name__, error.code), ("APIError", "upstream_timeout"))

    @property
    def _patient(self) -> Any:
        return self._as(self._told.patient).chat.completions

    def _as(self, secret: str) -> Any:
        """Return a client that hides no failure behind a second try."""
        return openai.OpenAI(base_url=self._url, api_key=secret, max_retries=0)

    def _async(self) -> Any:
        return openai.AsyncOpenAI(base_url=self._url, api_key=self._told.secret, max_retries=0)

    def _responded(self, response: Any) -> str:
        """Check a response that was cut at its bound and return its text; llama.cpp calls that end an ordinary one."""
        usage = response.usage
        answered(response.output_text, "length", (usage.input_tokens, usage.output_tokens, usage.total_tokens))
        same("state", (response.model, response.status, response.service_tier), (TEXT, "completed", "default"))
        text: str = response.output_text
        return text

    def _responses_streamed(self, events: list[Any]) -> None:
        """Check the events of one response: each beginning once, the text as the last event has it, nothing behind that."""
        kinds = [event.type for event in events]
        same("beginnings", kinds[:2], ["response.created", "response.in_progress"])
        same("beginnings and ends", [kinds.count(kind) for kind in (*kinds[:2], "response.completed")], [1, 1, 1])
        same("the last", kinds[-1], "response.completed")
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        same("text", text, self._responded(events[-1].response))

    def _streamed(self, chunks: list[Any], model: str = TEXT) -> str:
        """Check a stream's chunks and return its text."""
        choices = [choice for chunk in chunks for choice in chunk.choices]
        same("models", {chunk.model for chunk in chunks}, {model})
        same("ids", len({chunk.id for chunk in chunks}), 1)
        same("ends", [choice.finish_reason for choice in choices if choice.finish_reason], ["length"])
        text = "".join(choice.delta.content or "" for choice in choices)
        holds("text", text, repr(text))
        return text


if __name__ == "__main__":
    scenarios.play(f"openai {openai.__version__}", Scenarios(scenarios.told()))
