"""Betas of Messages at a provider: which of a client's may leave, and what of a body needs one that does not. Pure."""

import re
from collections.abc import Mapping
from fnmatch import translate

from gateway.policy.catalogue import Provider
from gateway.providers.headers import Headers
from gateway.wire.betas import HEADER

FIELDS: Mapping[str, tuple[str, ...]] = {
    "billing_policy": ("user-profiles-billing-",),
    "compaction": ("compact-",),
    "context_management": ("context-management-", "compact-"),
    "fallback_credit_token": ("fallback-credit-",),
    "fallbacks": ("server-side-fallback-",),
    "mcp_servers": ("mcp-client-",),
    "output_format": ("structured-outputs-",),
    "speed": ("fast-mode-",),
    "thread": ("message-threads-",),
}
"""What the published API refuses in a body without a beta, and how the names of those begin that have it."""


class Betas:
    """The betas of one provider: the operator's own, which stand in its `headers`, and those that clients may ask for."""

    def __init__(self, provider: Provider) -> None:
        own = next((value for name, value in provider.headers.items() if name.lower().encode() == HEADER), "")
        self._own = tuple(name.strip() for name in own.split(",") if name.strip())
        self._allowed = re.compile("|".join(map(translate, provider.betas)) or "(?!)")

    def leaving(self, asked: tuple[str, ...]) -> tuple[str, ...]:
        """Return the betas in which a request is made that asks for these."""
        return (*self._own, *(name for name in asked if self._allowed.match(name) and name not in self._own))

    def headers(self, usual: Headers, betas: tuple[str, ...]) -> Headers:
        """Return the headers of a call that is made in these betas."""
        if betas == self._own:
            return usual
        return (*(pair for pair in usual if pair[0] != HEADER), (HEADER, ",".join(betas).encode("latin-1")))


def lacks_beta(name: str, betas: tuple[str, ...]) -> bool:
    """Return whether a field of this name would be refused of a request in these betas."""
    return name in FIELDS and not any(beta.startswith(FIELDS[name]) for beta in betas)
