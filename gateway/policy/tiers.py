"""Service tiers: what a client's word means for its key, what a model makes of it, and which tier an answer names.

The law is the wire contract's state table (2.2, 2.3). Classes rank priority over default and no-limit over over-limit over flex.
Pure.
"""

from collections.abc import Iterator, Mapping

import msgspec

from gateway.errors import InvalidValue, Unprocessable
from gateway.faults import FieldError
from gateway.policy.catalogue import Key, Model, Provider, Tier, TierTerms
from gateway.wire.contracts import OPENAI, Contract
from gateway.wire.request import Endpoint

WORDS: Mapping[str, Tier] = {
    "priority": Tier.PRIORITY,
    "fast": Tier.PRIORITY,
    "performance": Tier.PRIORITY,
    "default": Tier.DEFAULT,
    "standard": Tier.DEFAULT,
    "standard_only": Tier.DEFAULT,
    "on_demand": Tier.DEFAULT,
    "scale": Tier.DEFAULT,
    "flex": Tier.FLEX,
    "no-limit": Tier.NO_LIMIT,
}
"""What clients of the published contracts write for the tiers that can be asked for."""

RANK: Mapping[Tier, int] = {Tier.PRIORITY: 3, Tier.DEFAULT: 2, Tier.NO_LIMIT: 2, Tier.OVER_LIMIT: 1, Tier.FLEX: 0}

PRIORITIES: Mapping[Tier, int] = {Tier.PRIORITY: -1, Tier.OVER_LIMIT: 1, Tier.FLEX: 2}
"""What vLLM's `priority` is for a tier: lower is sooner, and 0 is meant where nothing is sent."""

SPENDS_NO_RATES = frozenset({Tier.NO_LIMIT, Tier.OVER_LIMIT, Tier.FLEX})
"""Tiers that neither consult nor charge the RPM, TPM and RPD of key and org; concurrency and guards always hold."""


class Wish(msgspec.Struct, frozen=True, gc=False):
    """What a request asks for once its key has been heard.

    `overflow` allows service over the limit when rates refuse. `named` tells a tier that the client wrote from one that `auto` or
    a default led to: the first is refused where the key has no right to it, the second never is.
    """

    tier: Tier
    overflow: bool = False
    named: bool = False


class Echo(msgspec.Struct, frozen=True, gc=False):
    """The tier that an answer names and is billed at."""

    tier: Tier
    multiplier: float


def wish(word: str | None, key: Key, endpoint: Endpoint, contract: Contract = OPENAI) -> Wish:
    """Return what `word` means for this key. Raises `InvalidValue` (400) and `Unprocessable` (422), param `service_tier`."""
    if word is None:
        word = absent(key, endpoint, contract)
        return _auto(key, contract) if word == "auto" else _allowed(WORDS[word], key)
    if word == "auto":
        return _auto(key, contract)
    if word == Tier.OVER_LIMIT:
        raise InvalidValue(
            "service_tier 'over-limit' names a tier of answers; ask for 'auto' to be served over the limit", param="service_tier"
        )
    tier = WORDS.get(word)
    if tier is None:
        raise Unprocessable((UNKNOWN_WORD,))
    if not _entitled(tier, key):
        raise InvalidValue(f"The service tier '{tier}' is not allowed for this key", param="service_tier")
    return Wish(tier, named=True)


UNKNOWN_WORD = FieldError(("body", "service_tier"), "Input should be 'auto', 'default', 'priority', 'flex' or 'no-limit'", "enum")


def unknown_word(word: str) -> FieldError | None:
    """Return what is wrong with a word that names no tier, None for one that may be understood."""
    return None if word in WORDS or word in ("auto", Tier.OVER_LIMIT) else UNKNOWN_WORD


def absent(key: Key, endpoint: Endpoint, contract: Contract = OPENAI) -> str:
    """Return the word that stands in for an absent one."""
    return key.default_tier or contract.absent_tier[endpoint]


def _auto(key: Key, contract: Contract) -> Wish:
    policy = key.auto or contract.auto
    if policy == "priority":
        return _allowed(Tier.PRIORITY, key)
    if policy == "project" and key.project is not None and key.project in key.project_tiers:
        return _allowed(key.project_tiers[key.project], key)
    return Wish(Tier.DEFAULT, overflow=key.over_limit is not None)


def _allowed(tier: Tier, key: Key) -> Wish:
    return Wish(tier if _entitled(tier, key) else Tier.DEFAULT)


def _entitled(tier: Tier, key: Key) -> bool:
    return key.allow_no_limit if tier is Tier.NO_LIMIT else tier in key.tiers


def served(wanted: Wish, model: Model, key: Key) -> tuple[Tier, ...]:
    """Return the tiers at which `model` would serve this wish, the preferred one first.

    A model without the tier serves default, and a downgraded flex pays like any default. Raises `InvalidValue` for keys
    that want to be refused instead.
    """
    tier = wanted.tier
    if tier is not Tier.DEFAULT and tier not in model.tiers:
        if wanted.named and key.reject_unsupported_tier:
            raise InvalidValue(f"The model '{model.name}' does not offer the service tier '{tier}'", param="service_tier")
        tier = Tier.DEFAULT
    if wanted.overflow and tier is Tier.DEFAULT and Tier.OVER_LIMIT in model.tiers:
        return (tier, Tier.OVER_LIMIT)
    return (tier,)


class Echoes(msgspec.Struct, frozen=True, gc=False):
    """What an upstream's own word for the tier changes: by the words that count, and where it says none of them."""

    words: Mapping[str, Echo] = {}
    silence: Echo | None = None

    def of(self, word: object) -> Echo | None:
        """Return what is shown and charged in place of the tier that was asked for; None: that tier itself."""
        return self.words.get(word, self.silence) if isinstance(word, str) else self.silence

    def naming(self, tier: object) -> Echo | None:
        """Return the one that an answer which names this tier was given; None for the tier that was asked for."""
        return next((echo for echo in self if echo.tier == tier), None)

    def __iter__(self) -> Iterator[Echo]:
        yield from self.words.values()
        if self.silence is not None:
            yield self.silence


NO_ECHOES = Echoes()


def echoes(tier: Tier, provider: Provider, terms: Mapping[Tier, TierTerms]) -> Echoes:
    """Return what the provider may say of an answer that is to be served at `tier`.

    Lower tiers count, by its own words; a higher one is never echoed, nor billed. None counts where it was sent no tier. One that
    names a tier only when it applied it has served the others at default, where that is lower.
    """
    if tier not in provider.tiers:
        return NO_ECHOES
    lower = (found for found in provider.tiers if RANK[found] < RANK[tier])
    words = {provider.tiers[found]: Echo(found, multiplier(found, terms)) for found in lower}
    if provider.names_tier_always or RANK[tier] <= RANK[Tier.DEFAULT]:
        return Echoes(words)
    applied = {provider.tiers[tier]: Echo(tier, multiplier(tier, terms))}
    return Echoes(applied | words, Echo(Tier.DEFAULT, multiplier(Tier.DEFAULT, terms)))


def multiplier(tier: Tier, terms: Mapping[Tier, TierTerms]) -> float:
    """Return what the tier makes of a model's price."""
    found = terms.get(tier)
    return 1.0 if found is None else found.price
