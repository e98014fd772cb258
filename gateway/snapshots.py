"""A catalogue with what it takes to act on it: the planner, each provider's dialect, each deployment's connections."""

import ssl

from gateway.job import Snapshot
from gateway.policy.catalogue import Catalogue
from gateway.policy.credentials import user_hash
from gateway.policy.experience import Experience
from gateway.policy.routing import Planner
from gateway.providers import DIALECTS
from gateway.upstream import connect
from gateway.upstream.origin import tls_context
from gateway.upstream.transport import Transport

SPARE_CONNECTIONS = 8
"""Beyond a deployment's ceiling: a slot in the store is free a moment before its connection is."""

UNBOUNDED_CONNECTIONS = 1_000
"""For a deployment without a ceiling: half of what one worker has in flight at most, unless it is told otherwise."""


def snapshot_of(
    catalogue: Catalogue, experience: Experience, transports: dict[str, Transport], lease_ttl_s: float, pepper: bytes
) -> Snapshot:
    """Return the catalogue with what it takes to act on it."""
    providers = {d.provider.name: d.provider for model in catalogue.models.values() for d in model.deployments}
    return Snapshot(
        catalogue=catalogue,
        planner=Planner(catalogue, experience),
        dialects={name: DIALECTS[provider.dialect](provider) for name, provider in providers.items()},
        transports=transports,
        lease_ttl_ms=round(lease_ttl_s * 1000),
        hash_user=lambda org, user: user_hash(pepper, org, user),
    )


def transports_of(catalogue: Catalogue) -> dict[str, Transport]:
    """Return each deployment's own connections, as many as it may have requests."""
    # Loading the roots of trust takes tens of milliseconds: deployments that trust the same ones share them.
    trusted: dict[str | None, ssl.SSLContext] = {}
    found: dict[str, Transport] = {}
    for model in catalogue.models.values():
        for deployment in model.deployments:
            provider, ceiling = deployment.provider, deployment.max_concurrency
            if provider.ca_file not in trusted and provider.base_url.startswith("https:"):
                trusted[provider.ca_file] = tls_context(provider.ca_file)
            most = UNBOUNDED_CONNECTIONS if ceiling is None else min(ceiling + SPARE_CONNECTIONS, UNBOUNDED_CONNECTIONS)
            tls = trusted.get(provider.ca_file)
            found[deployment.id] = connect(provider, model.timeouts, max_connections=most, tls=tls)
    return found
