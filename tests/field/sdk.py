"""An application of the official OpenAI SDK that reads streams, run by an interpreter that has it: what it sees, as JSON.

Its one argument is JSON: the gateway's base URL, a secret, and the names of what to ask for. Each is asked for as chat and as
completion, by the SDK's both clients.
"""

import asyncio
import json
import sys
from typing import Any

from openai import APIError, AsyncOpenAI, OpenAI  # type: ignore[import-not-found]


class Reading:
    """What came of one stream."""

    def __init__(self) -> None:
        self.text = ""
        self.finishes: list[str] = []
        self.usages: list[Any] = []
        self.raised: dict[str, Any] | None = None

    def add(self, chunk: Any) -> None:
        """Read a chunk as applications do: the first choice, or the usage where there is none."""
        if not chunk.choices:
            self.usages.append(chunk.usage.model_dump())
            return
        choice = chunk.choices[0]
        self.text += (choice.delta.content if hasattr(choice, "delta") else choice.text) or ""
        if choice.finish_reason:
            self.finishes.append(choice.finish_reason)

    def fail(self, error: APIError) -> None:
        """Take the exception that ended it."""
        names = ("message", "code", "type")
        self.raised = {"class": type(error).__name__, **{name: getattr(error, name) for name in names}}


def asked(name: str, endpoint: str) -> dict[str, Any]:
    prompt = {"messages": [{"role": "user", "content": "hi"}]} if endpoint == "chat" else {"prompt": "hi"}
    options = {"stream_options": {"include_usage": True}} if name == "usage" else {}
    return {"model": "m", "user": name, "stream": True, **prompt, **options}


def read(client: OpenAI, name: str, endpoint: str) -> Reading:
    create = client.chat.completions.create if endpoint == "chat" else client.completions.create
    reading = Reading()
    try:
        for chunk in create(**asked(name, endpoint)):
            reading.add(chunk)
    except APIError as error:
        reading.fail(error)
    return reading


async def read_async(client: AsyncOpenAI, name: str, endpoint: str) -> Reading:
    create = client.chat.completions.create if endpoint == "chat" else client.completions.create
    reading = Reading()
    try:
        async for chunk in await create(**asked(name, endpoint)):
            reading.add(chunk)
    except APIError as error:
        reading.fail(error)
    return reading


async def main(base_url: str, secret: str, names: list[str]) -> None:
    client = OpenAI(base_url=base_url, api_key=secret, max_retries=0, timeout=20)
    found: dict[str, Any] = {}
    async with AsyncOpenAI(base_url=base_url, api_key=secret, max_retries=0, timeout=20) as other:
        for name in names:
            for endpoint in ("chat", "completions"):
                readings = [read(client, name, endpoint), await read_async(other, name, endpoint)]
                found[f"{name} {endpoint}"] = [vars(reading) for reading in readings]
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
