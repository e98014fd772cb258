"""Whether a key may enter: known, not expired, from an address that it is bound to. Unix seconds. Pure."""

from ipaddress import ip_address, ip_network
from urllib.parse import parse_qs

from msgspec.structs import replace

from gateway.errors import IpNotAllowed, ProjectNotAllowed, Unauthenticated
from gateway.policy.catalogue import Key
from gateway.policy.credentials import carrier

Headers = list[tuple[bytes, bytes]]


INCORRECT = "Incorrect API key provided"
"""What is said of every key that is there and may not enter, whatever is wrong with it."""


REVOKED = "The API key was revoked"
"""What a request hears that was under way when its key was taken from it."""


def secret_of(headers: Headers) -> str:
    """Return the secret that the headers carry. Raises `Unauthenticated` and `InvalidRequest`, see `carrier`."""
    secret = carrier(headers)
    if secret is None:
        raise Unauthenticated("You didn't provide an API key: send it as 'Authorization: Bearer KEY'")
    return secret


def check_key(key: Key, address: str | None, now_unix_s: float) -> None:
    """Refuse a key that may not enter now or from here. Raises `Unauthenticated` and `IpNotAllowed`."""
    if key.expires_at_s is not None and now_unix_s >= key.expires_at_s:
        raise Unauthenticated("The API key has expired")
    if key.ips and not is_within(address, key.ips):
        raise IpNotAllowed("This API key may not be used from this address")


def for_project(key: Key, query: bytes) -> Key:
    """Return the key as it works for the project that the query's `ai_project_id` names, itself where there is none.

    Raises `ProjectNotAllowed`, in the same words whether the project is unknown or not the key's.
    """
    if not query:
        return key
    asked = parse_qs(query.decode("latin-1")).get("ai_project_id", [""])[-1]
    if not asked or asked == key.project:
        return key
    if asked not in (key.project_tiers if key.projects is None else key.projects):
        raise ProjectNotAllowed("This API key may not be used for this project", param="ai_project_id")
    return replace(key, project=asked)


def is_within(address: str | None, networks: tuple[str, ...]) -> bool:
    """Return whether an address lies in one of the networks; an IPv4 address that came over IPv6 counts as the IPv4 one."""
    if address is None:
        return False
    found = ip_address(address)
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in ip_network(network, strict=False) for network in networks)
