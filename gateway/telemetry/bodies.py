"""What clients ask and are answered, in the log: an operator's choice (`telemetry.log_bodies`), and off unless it is made.

A line each, beside the access line and with its `request_id`: the beginning of the body, without what looks like a secret or is
one of this gateway's. Headers are never in it.
"""

import codecs
import re
from collections.abc import Iterable

import msgspec
import structlog

from gateway.telemetry.redaction import excerpt

MOST_BYTES = 16_384
"""Of one body: a long prompt's beginning. What is longer says where it was cut."""

BEHIND_BYTES = 4_096
"""Looked at behind that: no half of a secret is shown that lies across the cut."""

FEWEST_OF_A_SECRET = 8
"""A secret that is shorter may be any word."""

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What a terminal would obey."""

log = structlog.get_logger("gateway.bodies")


class Body:
    """One body, as its pieces come."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._beginning = bytearray()
        self.length_bytes = 0

    def add(self, piece: bytes) -> None:
        """Take what comes next."""
        self.length_bytes += len(piece)
        room = MOST_BYTES + BEHIND_BYTES - len(self._beginning)
        if room > 0:
            self._beginning += piece[:room]

    def write(self, request_id: str, secrets: Iterable[str]) -> None:
        """Log it without these secrets."""
        log.info(
            self._event,
            request_id=request_id,
            bytes=self.length_bytes,
            cut_at_bytes=MOST_BYTES if self.length_bytes > MOST_BYTES else None,
            body=self.shown(secrets),
        )

    def shown(self, secrets: Iterable[str]) -> str:
        """Return the text that is logged."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        within = decoder.decode(bytes(self._beginning[:MOST_BYTES]))
        behind = decoder.decode(bytes(self._beginning[MOST_BYTES:]), final=True)
        text = excerpt(within + behind, len(within) if self.length_bytes > MOST_BYTES else len(within + behind), spelled(secrets))
        return UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def spelled(secrets: Iterable[str]) -> set[str]:
    """Return secrets in every way in which JSON usually spells them."""
    found = set()
    for secret in secrets:
        if len(secret) >= FEWEST_OF_A_SECRET:
            quoted = msgspec.json.encode(secret)[1:-1].decode()
            found |= {secret, quoted, quoted.replace("/", "\\/")}
    return found
