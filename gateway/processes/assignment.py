"""What the supervisor tells a worker, on the first line of its stdin: not on its command line, which the whole machine reads."""

from pathlib import Path

import msgspec

from gateway.config import Edition
from gateway.config.carried import rebuilt, revealed
from gateway.processes.identity import Identity
from gateway.processes.server import Times


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's place, and the reading of the configuration that it begins with.

    `api_fd` is the shared listening socket; `control_path` is where the supervisor reaches the worker.
    """

    gateway: Identity
    name: str
    edition: Edition
    api_fd: int
    control_path: Path
    redis_url: str
    state_dir: Path
    pepper: bytes
    times: Times

    def __repr__(self) -> str:
        """Return the worker's name alone: the rest is secret."""
        return f"Assignment({self.name!r})"


_encoder = msgspec.json.Encoder(enc_hook=revealed)
_decoder = msgspec.json.Decoder(Assignment, dec_hook=rebuilt)


def encode(assignment: Assignment) -> bytes:
    """Return the assignment as one line."""
    return _encoder.encode(assignment)


def decode(line: bytes) -> Assignment:
    """Return the assignment of this line. Raises msgspec.ValidationError."""
    return _decoder.decode(line)
