"""The official Anthropic client for Python, which knows the Messages API alone."""

from functools import partial
from typing import Any

import anthropic  # type: ignore[import-not-found]

from tests.compat import scenarios
from tests.compat.scenarios import (
    CALLS,
    FAILING,
    FLAKY,
    GREETING,
    LATE,
    LONG,
    NATIVE,
    SCHEMA,
    SILENT,
    SYSTEM,
    TEXT,
    arguments,
    broken,
    holds,
    late,
    raised,
    same,
)

SHORT: Any = {
    "model": TEXT,
    "system": SYSTEM,
    "messages": [{"role": "user", "content": GREETING}],
    "max_tokens": 12,
    "extra_body": {"temperature": 0},
}


def answered(message: Any, model: str = TEXT) -> None:
    """Check an answer that was cut at its bound of 12 tokens."""
    text = "".join(block.text for block in message.content)
    scenarios.answered(
        text,
        "length" if message.stop_reason == "max_tokens" else message.stop_reason,
        (message.usage.input_tokens, message.usage.output_tokens, message.usage.input_tokens + message.usage.output_tokens),
    )
    same("model", (message.model, message.role, message.type), (model, "assistant", "message"))


class Scenarios:
    """Every public method is one."""

    def __init__(self, told: scenarios.Told) -> None:
        self._told = told
        self._messages = self._as(told.secret)
        tool = {"name": "weather", "description": "Tell the weather.", "input_schema": SCHEMA}
        self._calling: Any = {
            **SHORT,
            "model": CALLS,
            "max_tokens": 200,
            "tools": [tool],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        }

    def create(self) -> None:
        answered(self._messages.create(**SHORT))

    def create_stream(self) -> None:
        kinds = [event.type for event in self._messages.create(**SHORT, stream=True)]
        same("ends", (kinds[0], kinds[-2:]), ("message_start", ["message_delta", "message_stop"]))
        same("blocks", kinds.count("content_block_start"), kinds.count("content_block_stop"))

    def stream(self) -> None:
        with self._messages.stream(**SHORT) as stream:
            text = "".join(stream.text_stream)
            message = stream.get_final_message()
        answered(message)
        same("text", text, message.content[0].text)

    def create_passed_through(self) -> None:
        answered(self._messages.create(**SHORT | {"model": NATIVE}), NATIVE)

    def stream_passed_through(self) -> None:
        with self._messages.stream(**SHORT | {"model": NATIVE}) as stream:
            answered(stream.get_final_message(), NATIVE)

    def stream_left(self) -> None:
        with self._messages.stream(**SHORT | {"max_tokens": 2_000}) as stream:
            next(stream.text_stream)

    async def async_create(self) -> None:
        async with self._async() as client:
            answered(await client.messages.create(**SHORT))

    async def async_stream(self) -> None:
        async with self._async() as client, client.messages.stream(**SHORT) as stream:
            answered(await stream.get_final_message())

    def tools(self) -> None:
        self._called(self._messages.create(**self._calling))

    def tools_stream(self) -> None:
        with self._messages.stream(**self._calling) as stream:
            self._called(stream.get_final_message())

    def tools_answered(self) -> None:
        said = [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"unit": "celsius"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "21"}]},
        ]
        tools = self._calling["tools"]
        answered(self._messages.create(**SHORT | {"messages": [*SHORT["messages"], *said], "tools": tools}))

    def tools_returned(self) -> None:
        called = self._messages.create(**self._calling)
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "none", "is_error": True}
            for block in called.content
            if block.type == "tool_use"
        ]
        said = [{"role": "assistant", "content": called.content}, {"role": "user", "content": results}]
        messages = [*SHORT["messages"], *said]
        answered(self._messages.create(**SHORT | {"messages": messages, "tools": self._calling["tools"]}))

    def system_within(self) -> None:
        said = [*SHORT["messages"], {"role": "system", "content": SYSTEM}]
        for model in (TEXT, NATIVE):
            message = self._messages.create(**SHORT | {"messages": said, "model": model})
            same("role", (message.role, message.model), ("assistant", model))

    def betas(self) -> None:
        editing: Any = {"context_management": {"edits": []}, "betas": ["context-management-2025-06-27"]}
        for model in (TEXT, NATIVE):
            message = self._beta.create(**SHORT | {"model": model} | editing)
            same("role", (message.role, message.model), ("assistant", model))

    def thinking_of_another_day(self) -> None:
        answered(self._messages.create(**SHORT | {"thinking": {"type": "between_tools"}}))

    def wrong_key(self) -> None:
        wrong = self._as("sk-wrong-0123456789")
        error = raised(anthropic.AuthenticationError, lambda: wrong.create(**SHORT))
        same("type", error.body["error"]["type"], "authentication_error")

    def unknown_model(self) -> None:
        error = raised(anthropic.NotFoundError, lambda: self._messages.create(**SHORT | {"model": "none"}))
        same("type", error.body["error"]["type"], "not_found_error")

    def bad_field(self) -> None:
        raised(anthropic.APIStatusError, lambda: self._messages.create(**SHORT | {"max_tokens": 0}))

    def long_prompt(self) -> None:
        said = [{"role": "user", "content": LONG}]
        for stream in (False, True):
            asked: Any = SHORT | {"messages": said, "stream": stream}
            raised(anthropic.BadRequestError, partial(self._messages.create, **asked))

    def rate_limit(self) -> None:
        error = raised(anthropic.RateLimitError, lambda: self._as(self._told.poor).create(**SHORT))
        same("type", error.body["error"]["type"], "rate_limit_error")

    def provider_fails(self) -> None:
        raised(anthropic.InternalServerError, lambda: self._messages.create(**SHORT | {"model": FAILING}))

    def broken_stream(self) -> None:
        with self._messages.stream(**SHORT | {"model": FLAKY}) as stream:
            broken(anthropic.APIError, stream.text_stream)

    def commented_stream(self) -> None:
        with self._patient.stream(**SHORT | {"model": LATE}) as stream:
            late("".join(stream.text_stream))

    def commented_failure(self) -> None:
        raised(anthropic.APIError, lambda: list(self._patient.create(**SHORT | {"model": SILENT}, stream=True)))

    @property
    def _patient(self) -> Any:
        return self._as(self._told.patient)

    def _as(self, secret: str) -> Any:
        """Return a client that hides no failure behind a second try."""
        return anthropic.Anthropic(base_url=self._told.url, api_key=secret, max_retries=0).messages

    @property
    def _beta(self) -> Any:
        return anthropic.Anthropic(base_url=self._told.url, api_key=self._told.secret, max_retries=0).beta.messages

    def _async(self) -> Any:
        return anthropic.AsyncAnthropic(base_url=self._told.url, api_key=self._told.secret, max_retries=0)

    def _called(self, message: Any) -> None:
        same("end", message.stop_reason, "tool_use")
        [call] = [block for block in message.content if block.type == "tool_use"]
        arguments(call.name, call.input)
        holds("id", call.id, call)


if __name__ == "__main__":
    scenarios.play(f"anthropic {anthropic.__version__}", Scenarios(scenarios.told()))
