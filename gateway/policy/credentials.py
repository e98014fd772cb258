"""Where a request carries its key, and what is kept of a key: never itself, but its HMAC-SHA256 with a pepper.

A 256-bit random secret cannot be guessed, so a slow hash would only let strangers burn our processor. Pure.
"""

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256

from gateway.errors import InvalidRequest

_AUTHORIZATION = b"authorization"
_CARRIERS = frozenset({_AUTHORIZATION, b"x-api-key", b"xi-api-key", b"api-key"})
_SCHEME = b"bearer"
_DIGEST_PREFIX = "hmac-sha256:"
SECRET_LENGTH_MIN = 16
"""Characters. Keys from elsewhere keep working, and shorter ones could be tried out."""

USER_HASH_BYTES = 16
"""No two users of an org come to share a hash by chance."""


def digest(pepper: bytes, secret: str) -> bytes:
    """Return what a key is known by."""
    return hmac.digest(pepper, secret.encode(), "sha256")


def user_hash(pepper: bytes, org: str, user: str) -> str:
    """Return what one of an org's users is told apart by: nobody without the pepper can try names out, nor compare two orgs."""
    named = b"\0".join((b"user", org.encode(), user.encode("utf-8", "surrogatepass")))
    return hmac.digest(pepper, named, "sha256")[:USER_HASH_BYTES].hex()


def plain_digest(secret: str) -> bytes:
    """Return what a key from elsewhere is known by that was kept as its SHA-256 there."""
    return sha256(secret.encode()).digest()


def format_digest(value: bytes) -> str:
    """Return a digest as files and commands write it: `hmac-sha256:` and 64 hexadecimal digits."""
    return _DIGEST_PREFIX + value.hex()


def parse_digest(text: str) -> bytes:
    """Return the digest that `format_digest` wrote.

    Raises ValueError.
    """
    if not is_digest(text):
        raise ValueError("a digest is hmac-sha256: and 64 hexadecimal digits")
    return bytes.fromhex(text.removeprefix(_DIGEST_PREFIX))


def is_digest(text: str) -> bool:
    """Return whether `parse_digest` reads `text`."""
    return re.fullmatch(_DIGEST_PREFIX + "[0-9a-f]{64}", text) is not None


def is_secret(text: str) -> bool:
    """Return whether `text` can be a key: long enough, and printable ASCII that a header carries unchanged."""
    return len(text) >= SECRET_LENGTH_MIN and text.isascii() and text.isprintable() and text == text.strip()


def carrier(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the key that a request's headers carry, or None. Names are in lower case.

    `Authorization` counts with the scheme Bearer only. Raises `InvalidRequest` for two keys that differ and for a second
    `Authorization`, since whoever looks at only one of them would see another caller.
    """
    found: bytes | None = None
    authorized = False
    for name, value in headers:
        if name not in _CARRIERS:
            continue
        key = value.strip()
        if name == _AUTHORIZATION:
            if authorized:
                raise InvalidRequest("The request has more than one Authorization header.")
            authorized = True
            key = _bearer(key)
        if not key:
            continue
        if found is not None and key != found:
            raise InvalidRequest("The request carries two different API keys.")
        found = key
    return None if found is None else found.decode("latin-1")


def _bearer(value: bytes) -> bytes:
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == _SCHEME else b""
