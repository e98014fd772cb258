"""What the database keeps of tenants, as values: keys, and the orgs, plans and projects that they stand under.

A `definition` is JSON text: what the configuration file would say of the same thing, in the file's own notation. Unix
milliseconds. Pure.
"""

from collections.abc import Mapping

import msgspec

from gateway.policy.catalogue import Key


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A key as the database has it; nothing here is secret."""

    id: str
    name: str
    org: str
    plan: str | None
    definition: str
    created_unix_ms: int
    updated_unix_ms: int
    expires_unix_ms: int | None = None
    revoked_unix_ms: int | None = None
    blocked_unix_ms: int | None = None
    last_used_unix_ms: int | None = None
    source: str = "minted"


class Tenants(msgspec.Struct, frozen=True, kw_only=True):
    """Definitions beside those of the file, by name: plans, orgs, and by org the projects that have a row of their own."""

    plans: Mapping[str, str] = {}
    orgs: Mapping[str, str] = {}
    projects: Mapping[str, Mapping[str, str]] = {}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a digest led to: a key, what it stands under, and when the secret that was shown is good no more."""

    key: KeyRecord
    tenants: Tenants
    not_after_unix_ms: int | None = None

    def is_of(self, other: "Found | None") -> bool:
        """Return whether both mean the same rights: when a key was used last is none."""
        return other is not None and self.bare() == other.bare()

    def bare(self) -> "Found":
        """Return all that rights come of."""
        return msgspec.structs.replace(self, key=msgspec.structs.replace(self.key, last_used_unix_ms=None))

    def ends_unix_s(self) -> float | None:
        """Return when the key as it was shown enters no more: by its own end, or that of its secret."""
        ends = [each for each in (self.key.expires_unix_ms, self.not_after_unix_ms) if each is not None]
        return min(ends) / 1000 if ends else None


def may_enter(record: KeyRecord) -> bool:
    """Return whether a key that is there is neither revoked nor blocked; its end is the request's moment to tell."""
    return record.revoked_unix_ms is None and record.blocked_unix_ms is None


def state_of(record: KeyRecord, now_unix_ms: int) -> str:
    """Return a key's state in a word."""
    if record.revoked_unix_ms is not None:
        return "revoked"
    if record.blocked_unix_ms is not None:
        return "blocked"
    return "expired" if record.expires_unix_ms is not None and record.expires_unix_ms <= now_unix_ms else "active"


Bearer = tuple[Found, Key]
"""A key of the database, and what it means."""
