"""The names that workers go by in the store: which gateway each is of, and on which machine that runs.

A process's number and a host's name do not set containers apart: in each they may be the same. So a gateway has chance in its
name.
"""

import os
import secrets
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""What all containers on one kernel have in common, and no other machine has."""

CHANCE_BYTES = 4


class Identity(msgspec.Struct, frozen=True, order=True):
    """One gateway: the host's name, for people; `machine` is the same for all that may share a file; `number` is chance."""

    host: str
    machine: str
    number: str

    def worker(self, name: str, pid: int) -> str:
        """Return what one of its workers goes by."""
        return f"{self.host}-{self.machine}-{self.number}/{name}-{pid}"

    def __str__(self) -> str:
        return f"{self.host} ({self.number})"


def fresh() -> Identity:
    """Return the identity of a gateway that starts here now."""
    host = os.uname().nodename
    return Identity(host, machine(host), secrets.token_hex(CHANCE_BYTES))


def machine(host: str) -> str:
    """Return what this machine goes by, by its host's name where the kernel does not say."""
    try:
        return BOOT_ID.read_text()[:8]
    except OSError:
        return f"{zlib.crc32(host.encode()):08x}"


def gateways_of(workers: Iterable[str]) -> tuple[Identity, ...]:
    """Return the gateways that these workers are of; what a release before this one calls its workers names none."""
    named = (worker.rpartition("/")[0].rsplit("-", 2) for worker in workers)
    return tuple(sorted({Identity(*parts) for parts in named if len(parts) == 3}))
