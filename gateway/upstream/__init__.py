"""Upstreams: the transports that reach them, and how one is chosen for a provider. Times are seconds."""

import ssl

from gateway.policy.catalogue import Provider, Timeouts
from gateway.upstream.origin import parse_origin, tls_context
from gateway.upstream.pool import Pool
from gateway.upstream.stock import Stock
from gateway.upstream.transport import Transport

TRANSPORTS = ("http1", "httpx")
"""The words of `providers.X.transport`: our own pool, and stock httpx with its proxies."""


def connect(provider: Provider, timeouts: Timeouts, *, max_connections: int, tls: ssl.SSLContext | None = None) -> Transport:
    """Return the transport that the provider asks for. Nothing is connected yet.

    `tls` is a context to share between transports, see `tls_context`; by default each makes its own. Raises `ValueError` for a
    base URL, a transport or a combination that cannot be.
    """
    origin = parse_origin(provider.base_url)
    match provider.transport:
        case "http1" if provider.proxy is None:
            own = (tls or tls_context(provider.ca_file)) if origin.tls else None
            return Pool(origin, timeouts, max_connections=max_connections, tls=own)
        case "http1":
            raise ValueError("a proxy needs `transport: httpx`")
        case "httpx":
            context = tls or tls_context(provider.ca_file)
            return Stock(origin, timeouts, max_connections=max_connections, tls=context, proxy=provider.proxy)
        case unknown:
            raise ValueError(f"unknown transport {unknown!r}; known are {', '.join(TRANSPORTS)}")
