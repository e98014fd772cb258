"""langchain-openai's chat model and embeddings."""

from functools import partial
from importlib.metadata import version
from typing import Any

import openai  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # type: ignore[import-not-found]

from tests.compat import scenarios
from tests.compat.scenarios import (
    CALLS,
    FAILING,
    FLAKY,
    GREETING,
    LATE,
    LONG,
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

MESSAGES = [("system", SYSTEM), ("human", GREETING)]


def tokens(usage: Any) -> tuple[int, int, int]:
    return usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]


class Scenarios:
    """Every public method is one."""

    def __init__(self, told: scenarios.Told) -> None:
        self._told = told
        self._chat = self._model()
        self._calling = self._model(model=CALLS, max_tokens=200).bind_tools(
            [TOOL], tool_choice="required", parallel_tool_calls=False
        )
        self._choosing = self._model(max_tokens=200).with_structured_output({"title": "choice", **SCHEMA}, method="json_schema")

    def invoke(self) -> None:
        answer = self._chat.invoke(MESSAGES)
        answered(answer.content, answer.response_metadata["finish_reason"], tokens(answer.usage_metadata))
        same("model", answer.response_metadata["model_name"], TEXT)

    def stream(self) -> None:
        self._streamed(list(self._chat.stream(MESSAGES)))

    def batch(self) -> None:
        for answer in self._chat.batch([MESSAGES] * 8):
            answered(answer.content, answer.response_metadata["finish_reason"], tokens(answer.usage_metadata))

    async def async_invoke(self) -> None:
        answer = await self._chat.ainvoke(MESSAGES)
        answered(answer.content, answer.response_metadata["finish_reason"], tokens(answer.usage_metadata))

    async def async_stream(self) -> None:
        self._streamed([chunk async for chunk in self._chat.astream(MESSAGES)])

    def tools(self) -> None:
        answer = self._calling.invoke(MESSAGES)
        [call] = answer.tool_calls
        arguments(call["name"], call["args"])
        same("calls not understood", answer.invalid_tool_calls, [])

    def tools_stream(self) -> None:
        first, *chunks = self._calling.stream(MESSAGES)
        for chunk in chunks:
            first += chunk
        [call] = first.tool_calls
        arguments(call["name"], call["args"])

    def schema(self) -> None:
        chosen(self._choosing.invoke(MESSAGES))

    def schema_stream(self) -> None:
        *_, last = self._choosing.stream(MESSAGES)
        chosen(last)

    def embeddings(self) -> None:
        client = OpenAIEmbeddings(
            model=VECTORS,
            base_url=f"{self._told.url}/v1",
            api_key=self._told.secret,
            check_embedding_ctx_length=False,
            max_retries=0,
        )
        same("vectors", [len(vector) for vector in client.embed_documents(["one", GREETING])], [64, 64])
        same("one vector", len(client.embed_query(GREETING)), 64)

    def wrong_key(self) -> None:
        error = raised(openai.AuthenticationError, lambda: self._model(api_key="sk-wrong-0123456789").invoke(MESSAGES))
        same("code", error.code, "invalid_api_key")

    def unknown_model(self) -> None:
        raised(openai.NotFoundError, lambda: self._model(model="none").invoke(MESSAGES))

    def long_prompt(self) -> None:
        for ask in (self._chat.invoke, lambda prompt: list(self._chat.stream(prompt))):
            error = raised(openai.BadRequestError, partial(ask, LONG))
            same("code", error.code, "context_length_exceeded")

    def rate_limit(self) -> None:
        raised(openai.RateLimitError, lambda: self._model(api_key=self._told.poor).invoke(MESSAGES))

    def provider_fails(self) -> None:
        raised(openai.InternalServerError, lambda: self._model(model=FAILING).invoke(MESSAGES))

    def broken_stream(self) -> None:
        chunks = self._model(model=FLAKY).stream(MESSAGES)
        same("code", broken(openai.APIError, (chunk.content for chunk in chunks)).code, "stream_interrupted")

    def commented_stream(self) -> None:
        late("".join(chunk.content for chunk in self._patient(LATE).stream(MESSAGES)))

    def commented_failure(self) -> None:
        error = raised(openai.APIError, lambda: list(self._patient(SILENT).stream(MESSAGES)))
        same("code", error.code, "upstream_timeout")

    def _patient(self, model: str) -> Any:
        return self._model(model=model, api_key=self._told.patient)

    def _model(self, **fields: Any) -> Any:
        usual = {"model": TEXT, "api_key": self._told.secret, "max_tokens": 12, "temperature": 0, "max_retries": 0}
        return ChatOpenAI(base_url=f"{self._told.url}/v1", stream_usage=True, **usual | fields)

    def _streamed(self, chunks: list[Any]) -> None:
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        holds("chunks", len(chunks) > 3, chunks)
        answered(whole.content, whole.response_metadata["finish_reason"], tokens(whole.usage_metadata))


if __name__ == "__main__":
    scenarios.play(f"langchain-openai {version('langchain-openai')}", Scenarios(scenarios.told()))
