"""Which base URLs a provider may have. Private and loopback hosts are the operator's choice; metadata services never are."""

import re
import socket
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

_FORBIDDEN_NETWORKS = tuple(
    ip_network(network)
    for network in ("169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32")
)
"""Link-local addresses, and those where clouds answer anyone with the machine's own credentials."""

_FORBIDDEN_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_PRIVATE_SUFFIXES = (".local", ".internal", ".svc", ".lan", ".localhost", ".home.arpa")


def url_problem(url: str, *, allow_http: bool) -> str | None:
    """Return what is wrong with a base URL, or None."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme not in ("http", "https") or not host:
        return "expected a URL such as https://api.example.com/v1"
    if parts.username is not None or parts.query or parts.fragment:
        return "must hold no user, query or fragment: the credential goes into api_key"
    if parts.scheme == "http" and not allow_http:
        return "http:// sends the credential in clear: use https://, or set allow_http: true"
    return "link-local and metadata addresses are never called" if _is_forbidden(host) else None


def collector_problem(url: str) -> str | None:
    """Return what is wrong with the base URL of a collector, or None; an empty one is none."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no URL"
    if url and (parts.scheme not in ("http", "https") or not host):
        return "expected a URL such as http://collector:4318"
    if parts.username is not None or parts.query or parts.fragment:
        return "must hold no user, query or fragment: credentials go into OTEL_EXPORTER_OTLP_HEADERS"
    return None


def is_public_http(url: str) -> bool:
    """Return whether a sound URL sends its credential in clear to a host that is not plainly one's own."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme != "http":
        return False
    address = _address(host)
    if address is not None:
        return address.is_global
    return "." in host and not host.endswith(_PRIVATE_SUFFIXES)


def endpoint(url: str) -> tuple[str, str, int]:
    """Return a sound URL's scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _is_forbidden(host: str) -> bool:
    address = _address(host)
    if address is None:
        return host.rstrip(".").lower() in _FORBIDDEN_NAMES
    return any(address.version == network.version and address in network for network in _FORBIDDEN_NETWORKS)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a resolver would see in `host`, whatever way it is written, or None for a name."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return _old_notation(host)
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or address
    return address


def _old_notation(host: str) -> IPv4Address | None:
    """Return the address of the forms that only `inet_aton` reads, such as 0xa9fea9fe or 2852039166."""
    if re.fullmatch(r"[0-9a-fx.]+", host, re.IGNORECASE) is None:
        return None
    try:
        return IPv4Address(socket.inet_aton(host.rstrip(".")))
    except (OSError, AddressValueError):
        return None
