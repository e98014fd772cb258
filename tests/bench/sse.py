"""`python -m tests.bench.sse`: that the cost of a streamed event grows with its bytes alone, however small its pieces are.

CPU time of this process by the byte, in pieces of 1 KiB and of one byte; the framer alone, and the whole reader with its edits.
Exits 1 where a large event costs more than one and a half times as much by the byte as one of 64 KiB in the same round.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from gateway.providers.openai_stream import OpenAIStream
from gateway.providers.protocol import Edits
from gateway.wire.request import Endpoint
from gateway.wire.sse import Framer
from tests.bench.report import conditions, figure, markdown

KIB = 1024
MOST_RATIO = 1.5
SERIES = ((KIB, 8_192 * KIB, (64, 4_096)), (1, 512 * KIB, (64, 128, 256, 512)))
"""Bytes of a piece, bytes that are read for one figure, and the sizes of the events in KiB, the others compared to the first."""

HEADS = ("reader", "event", "pieces", "CPU ns/byte", "x 64 KiB", "at most")
EDITS = Edits(endpoint=Endpoint.CHAT, model="public", tier="default", id="ours", show_usage=True, upstream_model="up")

Read = Callable[[Sequence[bytes]], int]
"""Reads the pieces of one event. Returns how many bytes came out."""


def framed(pieces: Sequence[bytes]) -> int:
    """Frame one event."""
    framer = Framer()
    return sum(len(payload) for piece in pieces for payload in framer.feed(piece))


def edited(pieces: Sequence[bytes]) -> int:
    """Read one event as a chunk of an answer."""
    reader = OpenAIStream(EDITS)
    return sum(len(reader.feed(piece).out) for piece in pieces)


READERS: dict[str, Read] = {"framer": framed, "whole reader": edited}


def event(size_bytes: int) -> bytes:
    """Return an event of this size that says one long word."""
    said = {"index": 0, "delta": {"content": ""}, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [said]}
    head, tail = b"data: " + msgspec.json.encode(chunk)[: -len(b'"},"finish_reason":null}]}')], b'"},"finish_reason":null}]}\n\n'
    return head + b"x" * (size_bytes - len(head) - len(tail)) + tail


def ns_per_byte(read: Read, size_bytes: int, piece_bytes: int, least_bytes: int) -> float:
    """Return the CPU time of a byte of events of this size. Raises RuntimeError where one does not come out."""
    whole = event(size_bytes)
    pieces = [whole[at : at + piece_bytes] for at in range(0, size_bytes, piece_bytes)]
    count = least_bytes // size_bytes
    began_ns = time.process_time_ns()
    for _ in range(count):
        if read(pieces) < size_bytes // 2:
            raise RuntimeError("the event did not come out")
    return (time.process_time_ns() - began_ns) / (count * size_bytes)


def measure(reps: int) -> tuple[list[Sequence[str]], list[str]]:
    """Return the rows of the table, and what is not as promised."""
    lines: list[Sequence[str]] = [HEADS]
    amiss = []
    for name, read in READERS.items():
        for piece_bytes, least_bytes, sizes in SERIES:
            rounds = [[ns_per_byte(read, size * KIB, piece_bytes, least_bytes) for size in sizes] for _ in range(reps)]
            for place, size in enumerate(sizes):
                ratios = [figures[place] / figures[0] for figures in rounds]
                what = (name, f"{size} KiB", f"{piece_bytes} B")
                lines.append((*what, figure((figures[place] for figures in rounds), 2), figure(ratios, 2), f"{MOST_RATIO:g}"))
                if median(ratios) > MOST_RATIO:
                    amiss.append(f"{' '.join(what)}: {median(ratios):.2f} times as much by the byte as the smallest event")
    return lines, amiss


def main() -> int:
    """Run what the command line asks for."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.sse", description=__doc__)
    options.add_argument("--reps", type=int, default=5, metavar="N", help="rounds (5)")
    asked = options.parse_args()
    print(conditions(f"{asked.reps} rounds"), flush=True)
    gc.freeze()
    lines, amiss = measure(asked.reps)
    print(markdown(lines))
    for line in amiss:
        print(line, file=sys.stderr)
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main())
