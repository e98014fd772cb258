"""An application of the official OpenAI SDK that embeds, run by an interpreter that has it: what it gets, as JSON.

Its one argument is JSON: the gateway's base URL, a secret, and what to ask for: arguments of `embeddings.create` by name. Each is
asked for by the SDK's both clients.
"""

import asyncio
import json
import sys
from typing import Any

from openai import AsyncOpenAI, OpenAI  # type: ignore[import-not-found]


def told(answer: Any) -> dict[str, Any]:
    """Return an answer as applications read it."""
    return {
        "model": answer.model,
        "vectors": [list(each.embedding) if isinstance(each.embedding, list) else each.embedding for each in answer.data],
        "indices": [each.index for each in answer.data],
        "prompt_tokens": answer.usage.prompt_tokens,
        "total_tokens": answer.usage.total_tokens,
    }


async def main(base_url: str, secret: str, asked: dict[str, dict[str, Any]]) -> None:
    client = OpenAI(base_url=base_url, api_key=secret, max_retries=0, timeout=20)
    found: dict[str, Any] = {}
    async with AsyncOpenAI(base_url=base_url, api_key=secret, max_retries=0, timeout=20) as other:
        for name, fields in asked.items():
            found[name] = [told(client.embeddings.create(**fields)), told(await other.embeddings.create(**fields))]
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
