"""The form of the keys that the gateway makes: `tg_<env>_<id>_<secret><checksum>`.

The id (10 characters) is public: logs, reports and commands name the key by it. The secret (43) has 256 bits. The checksum (6) is
the CRC32 of all that stands before it, so that a key which was mistyped or guessed is known for one without asking anybody, and
scanners for leaked keys find few others. All three are base62: a double click selects the whole. Pure.
"""

import re
from zlib import crc32

import msgspec

PREFIX = "tg_"

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH, SECRET_LENGTH, CHECKSUM_LENGTH = 10, 43, 6
SECRET_BYTES = 32
"""Of chance; 43 characters of base62 hold as much."""

ID_BYTES = 16
"""Of chance: so much more than ten characters hold that their remainder is as even as it need be."""

SHOWN_LENGTH = 4
"""How much of a key's end is shown to tell two of one id apart: characters of the checksum, which say nothing of the secret."""

_FORM = re.compile(
    rf"tg_([a-z0-9]{{1,12}})_([0-9A-Za-z]{{{ID_LENGTH}}})_[0-9A-Za-z]{{{SECRET_LENGTH + CHECKSUM_LENGTH}}}", re.ASCII
)
_ENV = re.compile(r"[a-z0-9]{1,12}", re.ASCII)


class Minted(msgspec.Struct, frozen=True):
    """What a key of ours says openly."""

    env: str
    id: str


def is_env(text: str) -> bool:
    """Return whether `text` can name the environment of a key."""
    return _ENV.fullmatch(text) is not None


def new_id(chance: bytes) -> str:
    """Return a key's id, made of `ID_BYTES` of chance."""
    return _base62(int.from_bytes(chance) % 62**ID_LENGTH, ID_LENGTH)


def mint(env: str, key_id: str, chance: bytes) -> str:
    """Return a key with this id, made of `SECRET_BYTES` of chance.

    Raises ValueError where that would be none.
    """
    if len(chance) != SECRET_BYTES:
        raise ValueError(f"a secret is made of {SECRET_BYTES} bytes")
    body = f"{PREFIX}{env}_{key_id}_{_base62(int.from_bytes(chance), SECRET_LENGTH)}"
    made = body + _checksum(body)
    if parse(made) is None:
        raise ValueError("an environment is 1 to 12 of a-z and 0-9, an id ten of base62")
    return made


def parse(text: str) -> Minted | None:
    """Return what a key says openly, None for a text that is none of ours, down to its checksum."""
    found = _FORM.fullmatch(text)
    if found is None or text[-CHECKSUM_LENGTH:] != _checksum(text[:-CHECKSUM_LENGTH]):
        return None
    return Minted(found[1], found[2])


def is_garbled(text: str) -> bool:
    """Return whether a text bears our prefix and yet is no key of ours."""
    return text.startswith(PREFIX) and parse(text) is None


def shown(key: str) -> str:
    """Return what lists show of a key of ours."""
    return f"{key[: -SECRET_LENGTH - CHECKSUM_LENGTH]}…{key[-SHOWN_LENGTH:]}"


def _checksum(body: str) -> str:
    return _base62(crc32(body.encode()), CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits = ALPHABET[digit] + digits
    return digits
