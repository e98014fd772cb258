"""Chunks, and a reader's whole life in one call, for the tests of stream readers."""

import msgspec

from gateway.faults import Failed
from gateway.providers.openai_stream import OpenAIStream
from gateway.providers.protocol import Edits
from gateway.wire.request import Endpoint

DONE = b"data: [DONE]\n\n"
EDITS = Edits(endpoint=Endpoint.CHAT, model="public", tier="default", id="ours", show_usage=False, upstream_model="up-internal")


def chunk(choices: list[dict[str, object]], **more: object) -> bytes:
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up-internal", "choices": choices} | more
    return event(msgspec.json.encode({name: value for name, value in body.items() if value is not ...}))


def event(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def role() -> bytes:
    return chunk([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])


def says(text: str, index: int = 0, **more: object) -> bytes:
    return chunk([{"index": index, "delta": {"content": text}, "finish_reason": None}], **more)


def ends(reason: str = "stop", index: int = 0, **more: object) -> bytes:
    return chunk([{"index": index, "delta": {}, "finish_reason": reason}], **more)


def usage(prompt: int = 10, completion: int = 20, **more: object) -> dict[str, object]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion} | more


class Run(msgspec.Struct):
    """What became of a stream."""

    reader: OpenAIStream
    out: bytes
    failed: Failed | None
    committed: bool

    @property
    def payloads(self) -> list[bytes]:
        """Return what follows `data: ` of each event, the end mark included; there is nothing but such events."""
        events = self.out.split(b"\n\n")
        assert events.pop() == b""
        assert all(found.startswith(b"data: ") and b"\n" not in found for found in events)
        return [found[6:] for found in events]

    @property
    def chunks(self) -> list[dict[str, object]]:
        """Return the events as values, without the end mark."""
        return [msgspec.json.decode(payload) for payload in self.payloads if payload != b"[DONE]"]

    @property
    def text(self) -> dict[int, str]:
        """Return what each choice said."""
        said: dict[int, str] = {}
        for found in self.chunks:
            for choice in found["choices"]:  # type: ignore[attr-defined]
                words = choice["delta"].get("content") if "delta" in choice else choice["text"]
                said[choice["index"]] = said.get(choice["index"], "") + (words or "")
        return said

    @property
    def finishes(self) -> list[tuple[int, str]]:
        """Return every finish, in order."""
        return [
            (choice["index"], choice["finish_reason"])
            for found in self.chunks
            for choice in found["choices"]  # type: ignore[attr-defined]
            if choice.get("finish_reason")
        ]


def run(*pieces: bytes, edits: Edits = EDITS, most: int = 100_000) -> Run:
    """Feed pieces to a fresh reader, then the end of the body, until it fails or is done."""
    reader = OpenAIStream(edits, most)
    out: list[bytes] = []
    for piece in pieces:
        step = reader.feed(piece)
        out.append(step.out)
        if step.failed is not None or reader.done:
            return Run(reader, b"".join(out), step.failed, step.committed)
    step = reader.end()
    return Run(reader, b"".join([*out, step.out]), step.failed, step.committed)


def edits(**changed: object) -> Edits:
    return msgspec.structs.replace(EDITS, **changed)
