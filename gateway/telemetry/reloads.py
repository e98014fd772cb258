"""How it stands with the configuration of a running gateway: which reading is in force, and what became of the latest one.

The supervisor keeps it, for all workers; the operations port shows it. Times are Unix milliseconds.
"""

import msgspec


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


def page(standing: Standing) -> bytes:
    """Return the metrics of it in the text format."""
    gauges = (
        ("tiergate_config_generation", "Which reading of the configuration is in force.", standing.generation),
        ("tiergate_config_workers_behind", "Workers that are on an earlier one.", len(standing.behind)),
        ("tiergate_config_last_reload_successful", "Whether the latest file could be used.", int(not standing.errors)),
        (
            "tiergate_config_last_reload_success_timestamp_seconds",
            "When the file was read last and could be used.",
            standing.read_unix_ms / 1000,
        ),
    )
    lines = (f"# HELP {name} {about}\n# TYPE {name} gauge\n{name} {value!r}\n" for name, about, value in gauges)
    return "".join(lines).encode()
