"""An application written with the official OpenAI SDK, run by an interpreter that has it: what it sees, as JSON on stdout.

Its one argument is JSON: the gateway's base URL and the secrets of its keys. Each scenario tells what it got, or how it failed in
the SDK's own terms. It knows nothing of the gateway's code, as its users do not.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from openai import APIError, APIStatusError, AsyncOpenAI, OpenAI, __version__  # type: ignore[import-not-found]

HELLO: Any = [{"role": "user", "content": "Hello there"}]


class Application:
    """The scenarios: every public method is one."""

    def __init__(self, base_url: str, secret: str, single: str, patient: str) -> None:
        self._client = OpenAI(base_url=base_url, api_key=secret, max_retries=0, timeout=20)
        self._base_url, self._secret = base_url, secret
        self._wrong = OpenAI(base_url=base_url, api_key="sk-wrong-0123456789", max_retries=0)
        self._single = OpenAI(base_url=base_url, api_key=single, max_retries=0)
        self._patient = OpenAI(base_url=base_url, api_key=patient, max_retries=0, timeout=20)
        self._retrying = OpenAI(base_url=base_url, api_key=single, max_retries=2)

    def chat(self) -> Any:
        answer = self._client.chat.completions.create(model="demo-brief", messages=HELLO)
        return {**answer.model_dump(), "request_id": answer._request_id}

    def completion(self) -> Any:
        answer = self._client.completions.create(model="demo-brief", prompt="Hello there")
        return {**answer.model_dump(), "request_id": answer._request_id}

    def completion_stream(self) -> Any:
        stream = self._client.completions.create(model="demo-brief", prompt="Hello there", stream=True)
        return [chunk.model_dump() for chunk in stream]

    def chat_stream(self) -> Any:
        stream = self._client.chat.completions.create(model="demo-brief", messages=HELLO, stream=True)
        return [chunk.model_dump() for chunk in stream]

    def chat_stream_with_usage(self) -> Any:
        options = {"include_usage": True}
        stream = self._client.chat.completions.create(model="demo-brief", messages=HELLO, stream=True, stream_options=options)
        return [chunk.model_dump() for chunk in stream]

    async def async_chat_stream(self) -> Any:
        async with self._async_client() as client:
            stream = await client.chat.completions.create(model="demo-brief", messages=HELLO, stream=True)
            return [chunk.model_dump() async for chunk in stream]

    def fallback(self) -> Any:
        raw = self._client.chat.completions.with_raw_response.create(
            model="demo-busy", messages=HELLO, extra_body={"models": ["demo-busy", "demo-brief"]}
        )
        return {**raw.parse().model_dump(), "attempts": raw.headers["x-gateway-attempts"]}

    def fallback_stream(self) -> Any:
        stream = self._client.chat.completions.create(
            model="demo-busy", messages=HELLO, stream=True, extra_body={"models": ["demo-busy", "demo-brief"]}
        )
        return [chunk.model_dump() for chunk in stream]

    def tier(self) -> Any:
        return self._client.chat.completions.create(model="demo-brief", messages=HELLO, service_tier="flex").model_dump()

    def models(self) -> Any:
        return {
            "list": [model.id for model in self._client.models.list()],
            "one": self._client.models.retrieve("demo-brief").model_dump(),
        }

    def wrong_key(self) -> Any:
        return self._wrong.chat.completions.create(model="demo-brief", messages=HELLO)

    def unknown_model(self) -> Any:
        return self._client.chat.completions.create(model="none", messages=HELLO)

    def bad_field(self) -> Any:
        return self._client.chat.completions.create(model="demo-brief", messages=HELLO, temperature=9, n=0)

    def bad_tier(self) -> Any:
        return self._client.chat.completions.create(model="demo-brief", messages=HELLO, extra_body={"service_tier": "over-limit"})

    def rate_limit(self) -> Any:
        self._single.chat.completions.create(model="demo-brief", messages=HELLO, max_tokens=1)
        return self._single.chat.completions.create(model="demo-brief", messages=HELLO, max_tokens=1)

    def rate_limit_for_ever(self) -> Any:
        return self._retrying.chat.completions.create(model="demo-brief", messages=HELLO, max_tokens=5_000)

    def busy(self) -> Any:
        return self._client.chat.completions.create(model="demo-busy", messages=HELLO)

    def provider_down(self) -> Any:
        return self._client.chat.completions.create(model="demo-500", messages=HELLO)

    def deadline(self) -> Any:
        return self._client.chat.completions.create(
            model="demo-silent", messages=HELLO, extra_headers={"x-request-timeout": "0.3"}
        )

    def broken_answer(self) -> Any:
        return self._client.chat.completions.create(model="demo-flaky", messages=HELLO)

    def broken_stream(self) -> Any:
        seen = ""
        try:
            for chunk in self._client.chat.completions.create(model="demo-flaky", messages=HELLO, stream=True):
                seen += chunk.choices[0].delta.content or ""
        except APIError as error:
            return {**failure(error), "seen": seen}
        return {"seen": seen}

    async def async_broken_stream(self) -> Any:
        seen = ""
        async with self._async_client() as client:
            stream = await client.chat.completions.create(model="demo-flaky", messages=HELLO, stream=True)
            try:
                async for chunk in stream:
                    seen += chunk.choices[0].delta.content or ""
            except APIError as error:
                return {**failure(error), "seen": seen}
        return {"seen": seen}

    def commented_stream(self) -> Any:
        stream = self._patient.chat.completions.create(model="demo-late", messages=HELLO, stream=True)
        return {"head": dict(stream.response.headers), "chunks": [chunk.model_dump() for chunk in stream]}

    def commented_failure(self) -> Any:
        stream = self._patient.chat.completions.create(
            model="demo-silent", messages=HELLO, stream=True, extra_headers={"x-request-timeout": "0.5"}
        )
        return [chunk.model_dump() for chunk in stream]

    def _async_client(self) -> Any:
        return AsyncOpenAI(base_url=self._base_url, api_key=self._secret, max_retries=0, timeout=20)


def failure(error: APIError) -> dict[str, Any]:
    """Return an exception as the SDK's users read it."""
    found = {
        "raised": type(error).__name__,
        **{name: getattr(error, name) for name in ("message", "code", "param", "type", "body")},
    }
    if isinstance(error, APIStatusError):
        found |= {"status": error.status_code, "request_id": error.request_id, "headers": dict(error.response.headers)}
        found["retries"] = int(error.request.headers["x-stainless-retry-count"])
        found["whole"] = error.response.json()
    return found


def outcome(scenario: Callable[[], Any]) -> Any:
    """Return what a scenario got, or how it failed."""
    try:
        found = scenario()
        return asyncio.run(found) if asyncio.iscoroutine(found) else found
    except APIError as error:
        return failure(error)


def main() -> None:
    application = Application(**json.loads(sys.argv[1]))
    names = [name for name in vars(Application) if not name.startswith("_")]
    print(json.dumps({"version": __version__, **{name: outcome(getattr(application, name)) for name in names}}))


if __name__ == "__main__":
    main()
