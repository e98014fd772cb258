"""What the head of an HTTP message must be, whatever it asks for: nothing that a proxy in front could have read otherwise. Pure.

The parser has found lines, names and lengths by then (RFC 9112). What it lets pass is refused here: a message without exactly one
host, codings of the transfer that nobody would undo, targets with a part that no server sees, and names with an underscore, which
some servers take for those with a hyphen. Names are in lower case.
"""

import re
from collections.abc import Sequence

from gateway.errors import InvalidRequest

Headers = Sequence[tuple[bytes, bytes]]

HOST = re.compile(rb"(?:[\w.~!$&'()*+;=%-]+|\[[0-9a-fA-F:.]+\])(?::\d*)?", re.ASCII)
ABSOLUTE = re.compile(rb"https?://([^/?]*)(?:[/?]|$)", re.IGNORECASE)

UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
NO_UPGRADE = b"\r\nno-upgrade:"

ONCE = (b"host", b"content-type", b"content-encoding")
"""Fields that say one thing. Of lengths the parser takes one alone, and credentials are compared where they are looked up."""


def check_message(method: bytes, version: str, target: bytes, headers: Headers) -> None:
    """Raise `InvalidRequest` for a head that is not understood in one way alone; the connection ends with it."""
    if version not in ("1.1", "1.0"):
        raise InvalidRequest("Only HTTP/1.1 and HTTP/1.0 are spoken here")
    check_target(method, target)
    fields = dict(headers)
    if b"_" in b"\n".join(fields):
        raise InvalidRequest("The names of header fields may not have an underscore")
    if len(fields) != len(headers):
        names = [name for name, _ in headers]
        if any(names.count(name) > 1 for name in ONCE):
            raise InvalidRequest("Host, Content-Type and Content-Encoding are sent once")
    check_host(version, fields.get(b"host"))
    if b"transfer-encoding" in fields:
        check_coding(version, headers)


def check_target(method: bytes, target: bytes) -> None:
    """Raise `InvalidRequest` for what is neither a path nor, as proxies are asked, a whole URL."""
    if b"#" in target:
        raise InvalidRequest("A request's target has no fragment")
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return
    whole = ABSOLUTE.match(target)
    if whole is None or HOST.fullmatch(whole[1]) is None:
        raise InvalidRequest("A request's target is a path or an http URL")


def check_host(version: str, host: bytes | None) -> None:
    """Raise `InvalidRequest` for a host that cannot be one, and for none where HTTP/1.1 asks for one."""
    if host is None:
        if version == "1.1":
            raise InvalidRequest("A request of HTTP/1.1 has a Host field")
    elif HOST.fullmatch(host) is None:
        raise InvalidRequest("The Host field is no host's name or address")


def check_coding(version: str, headers: Headers) -> None:
    """Raise `InvalidRequest` for a body that comes otherwise than in plain chunks."""
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings != [b"chunked"] or version == "1.0":
        raise InvalidRequest("A body may come in chunks, in HTTP/1.1, and be coded in no other way for its transfer")


def without_upgrade(data: bytes) -> bytes:
    """Return the bytes of a head with its offer of another protocol renamed.

    The parser would end the message at its head and lose the body, where HTTP lets a server pass the offer over. Clients that
    prefer HTTP/2 make it with every first request.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return UPGRADE.sub(NO_UPGRADE, head) + end + rest
