"""The headers of a call: ours, the provider's credential, and what is configured for it, which wins. No client's. Pure."""

from gateway.policy.catalogue import Provider

Headers = tuple[tuple[bytes, bytes], ...]

OWNED_BY_TRANSPORT = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


def headers_of(provider: Provider, *, accept: str, **own: str) -> Headers:
    """Return what goes with every call to this provider; `own` are the dialect's, whose names have - for _.

    A header of the dialect's that is empty is left out.
    """
    found = {"content-type": "application/json", "accept": accept, "user-agent": "tiergate"}
    found |= {name.replace("_", "-"): value for name, value in own.items() if value}
    found |= {name.lower(): value for name, value in provider.headers.items() if name.lower() not in OWNED_BY_TRANSPORT}
    return tuple((name.encode("ascii"), value.encode("latin-1")) for name, value in found.items())
