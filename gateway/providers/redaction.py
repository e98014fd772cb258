"""What of a provider's message may be told to a client: its words, without what they give away.

Addresses, credentials, account ids and the provider's own name for the model go; of our own account at the provider, by value,
since not every address or credential looks like one. Pure.
"""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from gateway.policy.catalogue import Provider

MOST_CHARACTERS = 500
REDACTED = "[redacted]"

SUFFIXES = "internal|local|localdomain|svc|lan|corp|com|net|org|io|ai|dev|cloud|app|co|example|test|invalid"

# Messages may quote a client: every repetition is bounded, so that no text takes long.
SECRETS = re.compile(
    rf"""(?ix)
    \b[a-z][a-z0-9+.-]{{0,15}}://\S+                                       # an address
    | \b(?:bearer|basic)\s+\S+                                            # a credential as headers carry it
    | \b(?:sk|pk|rk|gsk|hf|xai|tg|org|proj|acct|req)[-_][\w*-]{{6,}}       # keys and account ids of the common makes
    | \b\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?\b                           # IPv4
    | \[[0-9a-f:]{{0,39}}:[0-9a-f:]{{1,39}}\](?::\d+)?                     # IPv6, as addresses write it
    | \b(?:[\w-]{{1,63}}\.){{1,8}}(?:{SUFFIXES})\b(?::\d+)?               # a host by its name
    | \b(?:localhost|(?:[\w-]{{1,63}}\.){{1,8}}[\w-]{{1,63}}):\d{{2,5}}\b  # a host by its port
    | \b(?=[\w-]{{0,31}}\d)(?=[\w-]{{0,31}}[a-z])[\w-]{{32,}}             # whatever is long enough to be a secret
    """
)

UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")


FEWEST_OF_A_SECRET = 8
"""A header of our account that is shorter says nothing that is worth hiding."""


def account_names(provider: Provider) -> tuple[str, ...]:
    """Return what of our account at a provider no client may read: its credentials, where it listens, what its headers carry."""
    where = urlsplit(provider.base_url)
    host = where.hostname or ""
    headers = (value for value in provider.headers.values() if len(value) >= FEWEST_OF_A_SECRET)
    # A host of one word is one only with its port: the word alone may be any word.
    keys = (key.reveal() for key in (provider.api_key, *provider.further_keys))
    return tuple(filter(None, (*keys, where.netloc, host if "." in host else "", *headers)))


def redacted(message: str, hidden: Iterable[str]) -> str:
    """Return `message` as it may be shown: one line, shortened, with what gives away redacted; "" for a page of HTML.

    `hidden` are names to redact wherever they stand as words, with or without the path before them.
    """
    text = UNPRINTABLE.sub(" ", message[: 2 * MOST_CHARACTERS]).strip()
    if text.startswith("<") or "<html" in text.lower():
        return ""
    for whole in hidden:
        for name in filter(None, (whole, whole.rpartition("/")[2])):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", REDACTED, text, flags=re.IGNORECASE)
    text = SECRETS.sub(REDACTED, text)
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
