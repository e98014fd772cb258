"""OpenAI's `user` as Anthropic's `metadata.user_id`, which is for made-up names alone: nobody's address is told. Pure."""

import re

import msgspec

from gateway.wire.request import InferenceRequest

LONGEST_USER_ID = 256
"""Messages takes no longer one."""

ADDRESS = re.compile(r"[^\s@]@[^\s@]")
NUMBER = re.compile(r"\+?[\d\s().\-/]+")
FEWEST_DIGITS, MOST_DIGITS = 7, 15
"""So many has a telephone number (ITU-T E.164)."""

decode = msgspec.json.Decoder().decode


def user_id(request: InferenceRequest) -> str:
    """Return what a request's user is told as; empty where there is none, or none that may be told."""
    user = decode(request.leaving("user") or b"null")
    return user if isinstance(user, str) and len(user) <= LONGEST_USER_ID and not is_address(user) else ""


def is_address(user: str) -> bool:
    """Return whether this may be somebody's e-mail address or telephone number."""
    digits = sum(map(str.isdigit, user))
    return ADDRESS.search(user) is not None or (
        NUMBER.fullmatch(user.strip()) is not None and FEWEST_DIGITS <= digits <= MOST_DIGITS
    )
