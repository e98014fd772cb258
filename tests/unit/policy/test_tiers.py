from typing import Any

import pytest

from gateway.errors import InvalidValue, Unprocessable
from gateway.policy.catalogue import Guards, Tier
from gateway.policy.tiers import NO_ECHOES, WORDS, Echo, Echoes, Wish, echoes, served, wish
from gateway.wire.request import Endpoint
from tests.catalogues import TERMS, key, model, provider

GROQS = {Tier.DEFAULT: "on_demand", Tier.PRIORITY: "performance", Tier.FLEX: "flex"}
CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
OVER = Guards()


@pytest.mark.parametrize(
    ("word", "fields", "endpoint", "expected"),
    [
        pytest.param(None, {}, CHAT, Wish(Tier.DEFAULT), id="absent on chat is auto"),
        pytest.param(None, {"over_limit": OVER}, CHAT, Wish(Tier.DEFAULT, overflow=True), id="auto overflows"),
        pytest.param(None, {"over_limit": OVER}, COMPLETIONS, Wish(Tier.DEFAULT), id="absent on completions is default"),
        pytest.param(None, {"default_tier": "flex"}, CHAT, Wish(Tier.FLEX), id="the key's default tier"),
        pytest.param(
            None, {"default_tier": "auto", "over_limit": OVER}, COMPLETIONS, Wish(Tier.DEFAULT, overflow=True), id="or auto"
        ),
        pytest.param("default", {"over_limit": OVER}, CHAT, Wish(Tier.DEFAULT, named=True), id="default never overflows"),
        pytest.param("standard_only", {}, CHAT, Wish(Tier.DEFAULT, named=True), id="alias"),
        pytest.param("fast", {}, CHAT, Wish(Tier.PRIORITY, named=True), id="fast is priority"),
        pytest.param("auto", {"auto": "priority"}, CHAT, Wish(Tier.PRIORITY), id="auto means priority where the key opted in"),
        pytest.param(
            "auto", {"auto": "priority", "tiers": frozenset()}, CHAT, Wish(Tier.DEFAULT), id="downgraded, never refused"
        ),
        pytest.param("no-limit", {"allow_no_limit": True}, CHAT, Wish(Tier.NO_LIMIT, named=True), id="no-limit with its right"),
        pytest.param(
            "auto",
            {"auto": "project", "project": "search", "project_tiers": {"search": Tier.PRIORITY}},
            CHAT,
            Wish(Tier.PRIORITY),
            id="auto takes the project's tier",
        ),
        pytest.param(
            "auto", {"auto": "project", "over_limit": OVER}, CHAT, Wish(Tier.DEFAULT, overflow=True), id="no project, overflow"
        ),
    ],
)
def test_a_word_means_what_the_key_makes_of_it(
    word: str | None, fields: dict[str, Any], endpoint: Endpoint, expected: Wish
) -> None:
    assert wish(word, key(**fields), endpoint) == expected


@pytest.mark.parametrize("word", ["priority", "flex", "fast", "default"])
def test_a_tier_by_name_needs_its_right(word: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        wish(word, key(tiers=frozenset()), CHAT)
    assert raised.value.param == "service_tier"


def test_no_limit_is_a_right_of_its_own() -> None:
    with pytest.raises(InvalidValue):
        wish("no-limit", key(), CHAT)


def test_over_limit_is_for_answers_only() -> None:
    with pytest.raises(InvalidValue) as raised:
        wish("over-limit", key(), CHAT)
    assert (raised.value.param, raised.value.error_code) == ("service_tier", "invalid_value")


@pytest.mark.parametrize("word", ["turbo", "FLEX", "", " flex"])
def test_an_unknown_word_is_422(word: str) -> None:
    with pytest.raises(Unprocessable) as raised:
        wish(word, key(), CHAT)
    assert raised.value.fields[0].loc == ("body", "service_tier")


def test_every_word_of_the_contracts_is_known() -> None:
    assert set(WORDS.values()) == set(Tier) - {Tier.OVER_LIMIT}


@pytest.mark.parametrize(
    ("wanted", "tiers", "expected"),
    [
        (Wish(Tier.FLEX), frozenset(Tier), (Tier.FLEX,)),
        (Wish(Tier.FLEX, named=True), frozenset({Tier.DEFAULT}), (Tier.DEFAULT,)),
        (Wish(Tier.DEFAULT, overflow=True), frozenset(Tier), (Tier.DEFAULT, Tier.OVER_LIMIT)),
        (Wish(Tier.DEFAULT, overflow=True), frozenset({Tier.DEFAULT}), (Tier.DEFAULT,)),
        (Wish(Tier.PRIORITY, overflow=True), frozenset({Tier.DEFAULT, Tier.OVER_LIMIT}), (Tier.DEFAULT, Tier.OVER_LIMIT)),
    ],
)
def test_a_model_serves_what_it_offers(wanted: Wish, tiers: frozenset[Tier], expected: tuple[Tier, ...]) -> None:
    assert served(wanted, model("m", tiers=tiers), key()) == expected


def test_a_key_may_rather_be_refused() -> None:
    picky, plain = key(reject_unsupported_tier=True), model("m", tiers=frozenset({Tier.DEFAULT}))
    with pytest.raises(InvalidValue, match="'m' does not offer the service tier 'flex'"):
        served(Wish(Tier.FLEX, named=True), plain, picky)
    assert served(Wish(Tier.FLEX), plain, picky) == (Tier.DEFAULT,), "one reached by default is downgraded"


def test_only_lower_tiers_are_echoed() -> None:
    told = provider(tiers=GROQS)
    assert echoes(Tier.PRIORITY, told, TERMS) == Echoes({"on_demand": Echo(Tier.DEFAULT, 1.0), "flex": Echo(Tier.FLEX, 0.8)})
    assert echoes(Tier.FLEX, told, TERMS) == Echoes({})
    assert echoes(Tier.NO_LIMIT, told, TERMS) == NO_ECHOES, "a provider that was sent no tier has no say"


@pytest.mark.parametrize(
    ("sent", "word", "served_at"),
    [
        (Tier.PRIORITY, None, Tier.DEFAULT),
        (Tier.PRIORITY, "performance", Tier.PRIORITY),
        (Tier.PRIORITY, "on_demand", Tier.DEFAULT),
        (Tier.PRIORITY, "flex", Tier.FLEX),
        pytest.param(Tier.PRIORITY, "turbo", Tier.DEFAULT, id="a word that means nothing here is none"),
        pytest.param(Tier.DEFAULT, None, Tier.DEFAULT, id="default is what silence means"),
        pytest.param(Tier.DEFAULT, "performance", Tier.DEFAULT, id="never upward"),
        pytest.param(Tier.FLEX, None, Tier.FLEX, id="silence is not upward either"),
        pytest.param(Tier.OVER_LIMIT, None, Tier.OVER_LIMIT, id="nothing lower is said"),
        pytest.param(Tier.NO_LIMIT, None, Tier.NO_LIMIT, id="nothing was sent"),
    ],
)
def test_a_provider_may_name_a_tier_only_when_it_applied_it(sent: Tier, word: str | None, served_at: Tier) -> None:
    told = echoes(sent, provider(tiers={**GROQS, Tier.OVER_LIMIT: "auto"}, names_tier_always=False), TERMS)
    echo = told.of(word)
    assert (sent if echo is None else echo.tier) == served_at
    assert echo is None or echo.multiplier == TERMS[served_at].price
    assert told.naming(str(served_at)) == echo, "an answer that names the tier tells as much"
