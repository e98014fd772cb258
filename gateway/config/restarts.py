"""What of a file takes effect at the next start alone: a new reading is taken without it, and says so."""

from msgspec.structs import replace

from gateway.config.differences import changed_paths
from gateway.config.structs import Config

AT_START = (
    "api",
    "ops",
    "workers",
    "redis",
    "database",
    "state_dir",
    "keys_pepper",
    "leases",
    "dialects",
    "shutdown",
    "ledger",
    "telemetry.log",
    "telemetry.log_bodies",
    "telemetry.level",
    "telemetry.otlp_endpoint",
    "telemetry.exemplars",
)
"""Sections, or fields of one. What listens, what is connected to and what keeps is made once in a process's life."""


def waits(path: str) -> bool:
    """Return whether a change at this path waits for the next start."""
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in AT_START)


def kept(running: Config, read: Config) -> tuple[Config, tuple[str, ...]]:
    """Return what was read with all that has to wait as it is running, and the changes that wait."""
    whole = {path: getattr(running, path) for path in AT_START if "." not in path}
    fields = (path.partition(".") for path in AT_START if "." in path)
    telemetry = {field: getattr(running.telemetry, field) for _, _, field in fields}
    waiting = tuple(path for path in changed_paths(running, read) if waits(path))
    return replace(read, telemetry=replace(read.telemetry, **telemetry), **whole), waiting
