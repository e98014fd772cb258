"""Whose request it is that came through proxies: the last address of X-Forwarded-For that no trusted proxy has.

Each proxy appends whom it was asked by. What stands further left was there before, for anybody to write. Pure.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

FORWARDED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})
"""Headers of a request that came through a proxy, of whatever make."""

_CHAIN = b"x-forwarded-for"

Fields = Iterable[tuple[bytes, bytes]]
"""A request's headers in order, their names in lower case."""


class Proxies:
    """Proxies that are believed, by the networks that they are in."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = tuple(ip_network(network, strict=False) for network in networks)

    def client(self, peer: str | None, fields: Fields) -> str | None:
        """Return the address of who asked the first of them; the peer itself where it is none, None where nobody can tell."""
        if peer is None or not self._has(address_of(peer)):
            return peer
        client: str | None = peer
        for hop in reversed(_hops(fields)):
            address = address_of(hop)
            client = None if address is None else str(address)
            if not self._has(address):
                break
        return client

    def _has(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a hop is written as, with a port or without; IPv4 inside IPv6 counts as the IPv4 one."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _hops(fields: Fields) -> list[str]:
    chain = b",".join(value for name, value in fields if name == _CHAIN)
    return [hop.strip() for hop in chain.decode("latin-1").split(",")] if chain else []
