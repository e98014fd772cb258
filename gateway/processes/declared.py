"""What the configuration file has of tenants, as the operations port shows it beside those of the database."""

from collections.abc import Callable
from typing import Any

from gateway.config import Config
from gateway.config.shown import said
from gateway.config.structs.tenancy import Key
from gateway.stores.minted import KeyView
from gateway.web.admin_keys import FILE
from gateway.web.admin_terms import Declared

COLUMNS = frozenset({"name", "org", "plan", "expires", "secret", "digest"})
"""What a key's definition has no place for."""


def declared_by(config: Config) -> Declared:
    """Return the orgs, plans and projects of the file, as it says them."""
    return Declared(
        orgs={name: said(org) for name, org in config.orgs.items()},
        plans={name: said(plan) for name, plan in config.plans.items()},
        projects={name: {each: said(project) for each, project in org.projects.items()} for name, org in config.orgs.items()},
    )


def keys_of(config: Config, unix_ms: Callable[[], int]) -> tuple[KeyView, ...]:
    """Return the keys of the file, as it says them, without their secrets."""
    return tuple(key_of(key, unix_ms()) for key in config.keys)


def key_of(key: Key, now_unix_ms: int) -> KeyView:
    """Return one key of the file. Nobody knows when it was made, and its use is not noted."""
    expires_unix_ms = None if key.expires_s is None else round(1000 * key.expires_s)
    definition: dict[str, Any] = {name: value for name, value in said(key).items() if name not in COLUMNS}
    return KeyView(
        id=key.name,
        name=key.name,
        org=key.org,
        plan=key.plan,
        state="active" if expires_unix_ms is None or expires_unix_ms > now_unix_ms else "expired",
        definition=definition,
        source=FILE,
        secrets=(),
        created_unix_ms=None,
        updated_unix_ms=None,
        expires_unix_ms=expires_unix_ms,
        revoked_unix_ms=None,
        blocked_unix_ms=None,
        last_used_unix_ms=None,
    )
