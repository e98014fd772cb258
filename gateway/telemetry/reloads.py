"""How it stands with the configuration of a running gateway: which reading is in force, and what became of the latest one.

The supervisor keeps it, for all workers; the operations port shows it. Times are Unix milliseconds.
"""

from collections.abc import Iterator

import msgspec
from prometheus_client.core import Metric

from gateway.telemetry import families
from gateway.telemetry.metrics import gauge


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of the configuration that is in force, and what became of the latest one."""

    generation: int
    hash: str
    """The same for gateways whose configurations mean the same."""
    path: str
    since_unix_ms: int
    """When it came into force."""
    findings: tuple[str, ...]
    """What deserves a look in it."""
    waiting: tuple[str, ...] = ()
    """What has changed in the file and waits for a restart, by its path."""
    behind: dict[str, str] = {}
    """Workers that are not on it, and why."""
    read_unix_ms: int
    """When the file was read last and could be used."""
    errors: tuple[str, ...] = ()
    """Why the latest file could not be used; none where it could."""


def figures(standing: Standing) -> Iterator[Metric]:
    """Yield the metrics of it."""
    yield gauge(families.GENERATION, {(): standing.generation})
    yield gauge(families.WORKERS_BEHIND, {(): len(standing.behind)})
    yield gauge(families.RELOAD_OK, {(): int(not standing.errors)})
    yield gauge(families.RELOADED, {(): standing.read_unix_ms / 1000})
