"""LiteLLM as a client, with the prefix of servers that speak as OpenAI does."""

import os
from functools import partial
from importlib.metadata import version
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read at import; without it the import waits for a download

import litellm  # type: ignore[import-not-found]

from tests.compat import scenarios
from tests.compat.scenarios import (
    CALLS,
    FAILING,
    FLAKY,
    GREETING,
    LATE,
    LONG,
    MESSAGES,
    SILENT,
    TEXT,
    TOOL,
    VECTORS,
    answered,
    arguments,
    broken,
    holds,
    late,
    raised,
    same,
)

USAGE = {"include_usage": True}


def tokens(usage: Any) -> tuple[int, int, int]:
    return usage.prompt_tokens, usage.completion_tokens, usage.total_tokens


class Scenarios:
    """Every public method is one."""

    def __init__(self, told: scenarios.Told) -> None:
        self._url = f"{told.url}/v1"
        self._told = told
        self._calling: Any = {
            "model": f"openai/{CALLS}",
            "max_tokens": 200,
            "tools": [TOOL],
            "tool_choice": "required",
            "parallel_tool_calls": False,
        }

    def completion(self) -> None:
        answer = litellm.completion(**self._asked())
        answered(answer.choices[0].message.content, answer.choices[0].finish_reason, tokens(answer.usage))

    def completion_stream(self) -> None:
        self._streamed(list(litellm.completion(**self._asked(), stream=True, stream_options=USAGE)))

    async def async_completion(self) -> None:
        answer = await litellm.acompletion(**self._asked())
        answered(answer.choices[0].message.content, answer.choices[0].finish_reason, tokens(answer.usage))

    async def async_completion_stream(self) -> None:
        stream = await litellm.acompletion(**self._asked(), stream=True, stream_options=USAGE)
        self._streamed([chunk async for chunk in stream])

    def tools(self) -> None:
        choice = litellm.completion(**self._asked(**self._calling)).choices[0]
        same("end", choice.finish_reason, "tool_calls")
        [call] = choice.message.tool_calls
        arguments(call.function.name, call.function.arguments)

    def tools_stream(self) -> None:
        chunks = list(litellm.completion(**self._asked(**self._calling), stream=True))
        choice = litellm.stream_chunk_builder(chunks).choices[0]
        same("end", choice.finish_reason, "tool_calls")
        [call] = choice.message.tool_calls
        arguments(call.function.name, call.function.arguments)

    def text_completion(self) -> None:
        answer = litellm.text_completion(
            model=f"text-completion-openai/{TEXT}",
            prompt=GREETING,
            max_tokens=12,
            temperature=0,
            api_base=self._url,
            api_key=self._told.secret,
        )
        answered(answer.choices[0].text, answer.choices[0].finish_reason, tokens(answer.usage))

    def embeddings(self) -> None:
        answer = litellm.embedding(
            model=f"openai/{VECTORS}",
            input=["one", GREETING],
            api_base=self._url,
            api_key=self._told.secret,
            encoding_format="float",
        )
        same("vectors", [(vector["index"], len(vector["embedding"])) for vector in answer.data], [(0, 64), (1, 64)])

    def wrong_key(self) -> None:
        raised(litellm.AuthenticationError, lambda: litellm.completion(**self._asked(api_key="sk-wrong-0123456789")))

    def unknown_model(self) -> None:
        raised(litellm.NotFoundError, lambda: litellm.completion(**self._asked(model="openai/none")))

    def bad_field(self) -> None:
        raised(litellm.BadRequestError, lambda: litellm.completion(**self._asked(temperature=9)))

    def long_prompt(self) -> None:
        said = [{"role": "user", "content": LONG}]
        for stream in (False, True):
            asked = self._asked(messages=said, stream=stream)
            raised(litellm.ContextWindowExceededError, partial(litellm.completion, **asked))

    def rate_limit(self) -> None:
        raised(litellm.RateLimitError, lambda: litellm.completion(**self._asked(api_key=self._told.poor)))

    def provider_fails(self) -> None:
        raised(litellm.BadGatewayError, lambda: litellm.completion(**self._asked(model=f"openai/{FAILING}")))

    def broken_stream(self) -> None:
        chunks = litellm.completion(**self._asked(model=f"openai/{FLAKY}"), stream=True)
        broken(litellm.exceptions.MidStreamFallbackError, (chunk.choices[0].delta.content or "" for chunk in chunks))

    def commented_stream(self) -> None:
        chunks = litellm.completion(**self._patient(LATE))
        late("".join(chunk.choices[0].delta.content or "" for chunk in chunks))

    def commented_failure(self) -> None:
        raised(litellm.exceptions.MidStreamFallbackError, lambda: list(litellm.completion(**self._patient(SILENT))))

    def _patient(self, model: str) -> dict[str, Any]:
        return self._asked(model=f"openai/{model}", api_key=self._told.patient, stream=True)

    def _asked(self, **fields: Any) -> dict[str, Any]:
        usual = {"model": f"openai/{TEXT}", "messages": MESSAGES, "max_tokens": 12, "temperature": 0, "max_retries": 0}
        return {**usual, "api_base": self._url, "api_key": self._told.secret, **fields}

    def _streamed(self, chunks: list[Any]) -> None:
        choices = [choice for chunk in chunks for choice in chunk.choices]
        [end] = [choice.finish_reason for choice in choices if choice.finish_reason]
        [usage] = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
        holds("chunks", len(chunks) > 3, chunks)
        answered("".join(choice.delta.content or "" for choice in choices), end, tokens(usage))


if __name__ == "__main__":
    scenarios.play(f"litellm {version('litellm')}", Scenarios(scenarios.told()))
