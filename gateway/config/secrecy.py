"""Whether the secrets of a configuration are any: present, long enough, one for each bearer. No message shows one."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from gateway.config.parse import Parsed
from gateway.config.problems import Problem, Where
from gateway.config.structs import Config
from gateway.config.structs.serving import OpsToken
from gateway.config.structs.supply import Provider
from gateway.config.structs.tenancy import Key
from gateway.policy.catalogue import Secret
from gateway.policy.credentials import SECRET_LENGTH_MIN, digest, is_digest, is_secret, parse_digest

_PLACEHOLDER = re.compile(r"(bearer +)?(<.*>|\$(\w+|\(.*\)|\{.*\})|\{\{.*\}\}|%\w+%)", re.ASCII | re.IGNORECASE)
"""A text that was to be replaced, and what other tools take for a variable: anybody could guess it."""

ACTORS = ("admin", "loopback")
"""What the audit calls whoever comes with `ops.admin_token`, or from this machine where there is no token."""

MOST_CREDENTIALS = 32
"""Of one provider."""

_IS_PLACEHOLDER = "is a placeholder: a variable is written ${NAME}, and what it brings in is taken as it is"


def check(parsed: Parsed) -> Iterator[Problem]:
    """Yield each secret that protects nothing, and each key that is not one key."""
    config = parsed.config
    for name, provider in config.providers.items():
        yield from _credentials(parsed, ("providers", name), provider)
        for header, value in provider.headers.items():
            if _PLACEHOLDER.fullmatch(value.reveal()):
                yield parsed.problem(("providers", name, "headers", header), _IS_PLACEHOLDER)
    if config.ops.admin_token:
        yield from _own_secret(parsed, ("ops", "admin_token"), config.ops.admin_token)
    if config.keys_pepper is not None:
        yield from _own_secret(parsed, ("keys_pepper",), config.keys_pepper)
    elif not config.redis.embedded:
        yield parsed.problem(("keys_pepper",), "is missing: only redis.url: embedded makes one of its own")
    yield from _keys(parsed)
    yield from _tokens(parsed)
    yield from _shared(parsed)


def secrets_of(config: Config) -> Iterator[Secret]:
    """Yield what clients and providers know this gateway by, and it them; of the stores' URLs, passwords tell themselves."""
    yield from _within((config.providers, config.keys, config.ops, config.keys_pepper))


def _within(value: object) -> Iterator[Secret]:
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, msgspec.Struct):
        yield from _within(tuple(getattr(value, field) for field in value.__struct_fields__))
    elif isinstance(value, Mapping):
        yield from _within(tuple(value.values()))
    elif isinstance(value, tuple):
        for each in value:
            yield from _within(each)


def _credentials(parsed: Parsed, where: Where, provider: Provider) -> Iterator[Problem]:
    if provider.api_key is not None:
        yield from _credential(parsed, (*where, "api_key"), provider.api_key)
    if provider.api_key is not None and provider.api_keys is not None:
        yield parsed.problem((*where, "api_keys"), "stand beside api_key: write all of them here, or that one alone")
    keys, seen = provider.api_keys or (), dict[Secret, int]()
    if len(keys) > MOST_CREDENTIALS:
        yield parsed.problem(
            (*where, "api_keys"), f"are {len(keys)}: at most {MOST_CREDENTIALS}, every request is planned with each"
        )
    for index, each in enumerate(keys):
        yield from _credential(parsed, (*where, "api_keys", index), each)
        if each in seen:
            yield parsed.problem((*where, "api_keys", index), f"is the same as api_keys[{seen[each]}]: one account is no two")
        seen.setdefault(each, index)


def _credential(parsed: Parsed, where: Where, secret: Secret) -> Iterator[Problem]:
    """Yield what a provider would answer 401 to, before it does."""
    text = secret.reveal()
    if not text:
        yield parsed.problem(where, "is empty: leave the field out for a provider that wants no credential")
    elif _PLACEHOLDER.fullmatch(text):
        yield parsed.problem(where, _IS_PLACEHOLDER)
    elif not (text.isascii() and text.isprintable()) or text != text.strip():
        yield parsed.problem(where, "must be printable ASCII without blanks around it")


def _own_secret(parsed: Parsed, where: Where, secret: Secret) -> Iterator[Problem]:
    if _PLACEHOLDER.fullmatch(secret.reveal()):
        yield parsed.problem(where, _IS_PLACEHOLDER)
    elif not is_secret(secret.reveal()):
        yield parsed.problem(where, f"must be at least {SECRET_LENGTH_MIN} printable ASCII characters without blanks around them")


def _keys(parsed: Parsed) -> Iterator[Problem]:
    names = Counter(key.name for key in parsed.config.keys)
    for index, key in enumerate(parsed.config.keys):
        where = ("keys", index)
        if names[key.name] > 1:
            yield parsed.problem((*where, "name"), f"'{key.name}' names {names[key.name]} keys")
        yield from _one_proof(parsed, where, key)


def _tokens(parsed: Parsed) -> Iterator[Problem]:
    ops = parsed.config.ops
    names = Counter([*(token.name for token in ops.tokens), *ACTORS])
    for index, token in enumerate(ops.tokens):
        where = ("ops", "tokens", index)
        if token.name in ACTORS:
            yield parsed.problem((*where, "name"), f"'{token.name}' is what the audit calls another")
        elif names[token.name] > 1:
            yield parsed.problem((*where, "name"), f"'{token.name}' names {names[token.name]} tokens")
        yield from _one_proof(parsed, where, token)


def _shared(parsed: Parsed) -> Iterator[Problem]:
    """Yield each bearer that is another's too: which of them somebody is, nobody could tell."""
    pepper = (parsed.config.keys_pepper or Secret("")).reveal().encode()
    ops = parsed.config.ops
    holders: list[tuple[Where, str, bytes | None]] = [
        (("keys", index), f"the key '{key.name}'", _known_by(key, pepper)) for index, key in enumerate(parsed.config.keys)
    ]
    if ops.admin_token:
        holders.append((("ops", "admin_token"), "ops.admin_token", digest(pepper, ops.admin_token.reveal())))
    holders += [
        (("ops", "tokens", index), f"the token '{token.name}'", _known_by(token, pepper))
        for index, token in enumerate(ops.tokens)
    ]
    seen: dict[bytes, str] = {}
    for where, called, known in holders:
        if known is None:
            continue
        if known in seen:
            yield parsed.problem(where, f"has the same secret as {seen[known]}")
        seen.setdefault(known, called)


def _one_proof(parsed: Parsed, where: Where, bearer: Key | OpsToken) -> Iterator[Problem]:
    given = {(*where, "secret"), (*where, "digest")} & parsed.settings.keys()
    if len(given) != 1:
        yield parsed.problem(where, "has a secret and a digest: one is enough" if given else "needs a secret or a digest")
    if bearer.secret is not None:
        yield from _own_secret(parsed, (*where, "secret"), bearer.secret)
    if bearer.digest is not None and not is_digest(bearer.digest):
        yield parsed.problem((*where, "digest"), "expected hmac-sha256: and 64 hexadecimal digits")


def _known_by(bearer: Key | OpsToken, pepper: bytes) -> bytes | None:
    if bearer.secret is not None:
        return digest(pepper, bearer.secret.reveal())
    return parse_digest(bearer.digest) if bearer.digest is not None and is_digest(bearer.digest) else None
