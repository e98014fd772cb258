"""Presets: each is sound by itself, and never more than what the file could have written by hand."""

from importlib.resources import files
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.addresses import url_problem
from gateway.config.check import check
from gateway.config.compile import compile_catalogue
from gateway.config.parse import Parsed
from gateway.config.presets import decoded, presets
from gateway.config.problems import ConfigErrors
from gateway.config.structs.supply import Provider
from gateway.policy import catalogue
from gateway.policy.catalogue import Tier
from gateway.policy.tiers import WORDS
from gateway.providers import DIALECTS, PRESETS
from gateway.wire.request import Endpoint
from tests.unit.config.reading import lines, read

SHIPPED = presets()
NAMES = sorted(SHIPPED)
RUN_BY_THE_OPERATOR = {"azure", "llama.cpp", "ollama", "sglang", "vllm"}
ADDRESS = {"base_url": "https://own.example/v1"}


def written() -> dict[str, dict[str, Any]]:
    """Return what the shipped file writes, as plain values: what an operator would have to write instead."""
    text = (files("gateway.providers") / "presets.yaml").read_text("utf-8")
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return {name: {field: value for field, value in fields.items() if field != "source"} for name, fields in found.items()}


BY_HAND = written()


def parsed(**fields: Any) -> Parsed:
    models = {"small": {"deployments": [{"provider": "p", "model": "s"}], "price": {"input": 1, "output": 2}}}
    return read(msgspec.json.encode({"providers": {"p": fields}, "models": models}).decode())


def provider(**fields: Any) -> Provider:
    """Return a provider without the name of its preset, so that it can be compared."""
    return msgspec.structs.replace(parsed(**fields).config.providers["p"], preset=None)


def address(name: str) -> dict[str, str]:
    return ADDRESS if name in RUN_BY_THE_OPERATOR else {}


def test_the_names_that_a_file_may_write_are_those_of_the_shipped_file() -> None:
    assert sorted(PRESETS) == NAMES == sorted(BY_HAND)


def test_a_preset_has_an_address_unless_its_server_is_the_operators() -> None:
    assert {name for name, preset in SHIPPED.items() if not preset.base_url} == RUN_BY_THE_OPERATOR


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("groq: {base_url: https://a.example}", "groq.source: is missing"),
        ("groq: {source: {documentation: https://a.example, date: 2026-11-30}, tires: {}}", "groq.tires: unknown field"),
        ("grok: {source: {documentation: https://a.example, date: 2026-11-30}}", "grok: expected one of"),
        ("groq: {source: {documentation: '${file:/etc/hostname}', date: 2026-11-30}}", "groq.source.documentation: file /etc"),
    ],
)
def test_a_preset_that_is_not_sound_is_not_shipped(text: str, problem: str) -> None:
    with pytest.raises(ConfigErrors, match=f"presets.yaml:1: {problem}"):
        decoded(text.encode())


def test_what_has_been_run_is_what_can_be_run_here() -> None:
    assert [name for name, preset in SHIPPED.items() if preset.source.run] == ["llama.cpp"]


@pytest.mark.parametrize("name", NAMES)
class TestEach:
    def test_names_what_it_goes_by(self, name: str) -> None:
        source = SHIPPED[name].source
        assert url_problem(source.documentation, allow_http=False) is None
        assert source.date.year >= 2026

    def test_has_no_secret_and_takes_no_liberty(self, name: str) -> None:
        assert not BY_HAND[name].keys() & {
            "preset",
            "api_key",
            "api_keys",
            "headers",
            "allow_http",
            "allow_store",
            "proxy",
            "ca_file",
        }

    def test_is_all_that_a_file_needs(self, name: str) -> None:
        findings = check(parsed(preset=name, api_key="sk-upstream", **address(name)))
        assert (list(findings.errors), list(findings.warnings)) == ([], [])

    def test_says_nothing_that_a_file_may_not(self, name: str) -> None:
        """What is not in this release is refused where a file writes it: a preset must not bring it in by another door."""
        findings = check(parsed(**{**BY_HAND[name], **address(name)}))
        assert (list(findings.errors), list(findings.warnings)) == ([], [])

    def test_becomes_a_provider(self, name: str) -> None:
        found = parsed(preset=name, api_key="sk-upstream", **address(name))
        made = compile_catalogue(found.config, b"pepper").models["small"].deployments[0].provider
        assert isinstance(made, catalogue.Provider)
        assert made.base_url == (SHIPPED[name].base_url or ADDRESS["base_url"])
        assert made.dialect == BY_HAND[name].get("dialect", "openai")
        assert made.dialect in DIALECTS
        assert made.endpoints >= {Endpoint.CHAT}
        assert made.tiers == {Tier(ours): theirs for ours, theirs in BY_HAND[name].get("tiers", {}).items()}
        assert made.api_key.reveal() == "sk-upstream"

    def test_names_tiers_by_words_that_mean_them(self, name: str) -> None:
        tiers = SHIPPED[name].tiers
        strange = {ours: theirs for ours, theirs in tiers.items() if WORDS.get(theirs) is not ours}
        assert strange in ({}, {Tier.PRIORITY: "auto"}, {Tier.OVER_LIMIT: "auto"})
        assert not tiers or Tier.DEFAULT in tiers

    def test_is_the_same_as_its_fields_by_hand(self, name: str) -> None:
        assert provider(preset=name, **address(name)) == provider(**BY_HAND[name], **address(name))


QUIRKS = st.fixed_dictionaries(
    {},
    optional={
        "fail_fast": st.booleans(),
        "stream_options": st.booleans(),
        "max_tokens_field": st.sampled_from([None, "max_tokens", "max_completion_tokens"]),
        "embeddings_base64": st.booleans(),
        "continuous_usage": st.booleans(),
        "reasoning_outside": st.booleans(),
        "reasoning_back": st.sampled_from([None, "reasoning_content", "reasoning"]),
        "text_offset": st.sampled_from(["openai", "vllm"]),
    },
)
OWN = st.fixed_dictionaries(
    {},
    optional={
        "base_url": st.just("https://proxy.example/v1"),
        "dialect": st.sampled_from(["openai", "anthropic", "azure"]),
        "api_key": st.sampled_from([None, "sk-own"]),
        "tiers": st.dictionaries(st.sampled_from([*Tier]), st.sampled_from(["default", "auto", "own"]), max_size=3),
        "endpoints": st.lists(st.sampled_from([*Endpoint]), max_size=3),
        "quirks": QUIRKS,
        "unknown_fields": st.sampled_from(["forward", "drop"]),
        "on_disconnect": st.sampled_from(["cancel", "drain"]),
        "headers": st.dictionaries(st.sampled_from(["x-a", "x-b"]), st.just("1"), max_size=2),
        "allow_http": st.booleans(),
    },
)


@given(st.sampled_from(NAMES), OWN)
def test_what_is_written_holds_and_the_preset_elsewhere(name: str, own: dict[str, Any]) -> None:
    base = BY_HAND[name]
    merged = {**base, **own, "quirks": {**base.get("quirks", {}), **own.get("quirks", {})}}
    assert provider(preset=name, **own) == provider(**merged)


def test_a_field_that_cannot_be_read_is_one_problem() -> None:
    found = parsed(preset="groq", base_url=[1])
    assert lines(list(check(found).errors)) == ["providers.p.base_url: expected text, got a list"]
    unknown = parsed(preset="grok")
    assert [each.where for each in check(unknown).errors] == ["providers.p.preset"]


def test_a_preset_may_be_named_by_a_reference() -> None:
    text = "providers: {p: {preset: ${VENDOR}}}\nmodels: {small: {deployments: [{provider: p, model: s}]}}"
    assert read(text, {"VENDOR": "groq"}).config.providers["p"].base_url == "https://api.groq.com/openai/v1"
