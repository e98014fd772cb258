"""Where an upstream lives, and which addresses never are one.

Private and loopback addresses are the operator's choice. Link-local and metadata addresses are refused by the address that is
about to be connected to, so that no name can lead there. Ports are integers, `prefix` has no trailing slash.
"""

import ipaddress
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

METADATA_ADDRESSES = frozenset({ipaddress.ip_address("fd00:ec2::254"), ipaddress.ip_address("100.100.100.200")})
"""Instance metadata that does not live in the link-local range: AWS over IPv6, Alibaba Cloud."""


def is_forbidden(address: str) -> bool:
    """Say whether this address is link-local or serves instance metadata. IPv4 inside IPv6 counts as IPv4."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.is_link_local or ip in METADATA_ADDRESSES


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """One scheme, host and port: what a credential is bound to."""

    host: str
    port: int
    tls: bool
    prefix: str
    forbids: Callable[[str], bool] = is_forbidden
    """Which addresses are refused; only tests choose."""

    @property
    def authority(self) -> str:
        """Return the value of the host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


def parse_origin(base_url: str) -> Origin:
    """Return the origin of a base URL. Raises `ValueError` when it is more or less than scheme, host, port and path."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a base URL starts with http:// or https:// and a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("a base URL has no credentials, no query and no fragment")
    tls = parts.scheme == "https"
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode("ascii")
    return Origin(host=host, port=parts.port or (443 if tls else 80), tls=tls, prefix=parts.path.rstrip("/"))


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a client context that verifies: against `ca_file` alone, or against the system's store.

    Making one reads the whole store (some 30 ms), so one is made per store and shared between transports.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
