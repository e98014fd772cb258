"""What models and deployments are said to be able to do: what is refused, and what it means."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from gateway.config.check import check
from gateway.config.compile import compile_catalogue
from gateway.config.structs.capabilities import Capabilities, DeploymentCapabilities
from gateway.policy import catalogue, means
from gateway.providers import NATURES
from tests.unit.config.reading import lines, read

AMOUNTS = {"max_logprobs": st.integers(0, 100), "stop": st.integers(0, 128)}
ENDPOINTS = st.none() | st.lists(st.sampled_from(("chat", "completions", "messages")), min_size=1, unique=True)
UNSAID = ("sampling", "temperature_with_top_p", "forced_tools", "prefill")
"""What a file need not say: it is there, but where a dialect knows better."""
YES_OR_NO = (*UNSAID, "tools", "vision", "logprobs", "regex", "suffix", "echo", "ignore_eos")
WHOLE = st.fixed_dictionaries(
    {}, optional={"endpoints": ENDPOINTS, **AMOUNTS, **dict.fromkeys((*YES_OR_NO, "priority_field"), st.booleans())}
)


def written(model: dict[str, Any], *deployments: dict[str, Any], dialects: tuple[str, ...] = ("openai",)) -> str:
    """A file of one model with so many deployments, each at a provider of its own."""
    providers = {
        f"p{place}": {"base_url": "https://up.example/v1", "dialect": dialects[place % len(dialects)]}
        for place in range(len(deployments))
    }
    deployed = [{"provider": f"p{place}", "model": "x", "capabilities": each} for place, each in enumerate(deployments)]
    models = {"m": {"deployments": deployed, "capabilities": model, "price": {"input": 1, "output": 2}}}
    return msgspec.json.encode({"providers": providers, "models": models}).decode()


def errors(model: dict[str, Any], *deployments: dict[str, Any], dialects: tuple[str, ...] = ("openai",)) -> list[str]:
    return lines(check(read(written(model, *deployments, dialects=dialects))).errors)


def compiled(model: dict[str, Any], *deployments: dict[str, Any], dialects: tuple[str, ...] = ("openai",)) -> catalogue.Model:
    parsed = read(written(model, *deployments, dialects=dialects))
    assert lines(check(parsed).errors) == []
    return compile_catalogue(parsed.config, b"").models["m"]


def is_narrower(own: Any, model: Any) -> bool:
    if isinstance(own, list):
        return model is None or {*own} <= {*model}
    return bool(own <= model)


@given(WHOLE, WHOLE)
def test_more_than_the_model_is_an_error_field_by_field_and_less_is_what_it_means(
    model: dict[str, Any], own: dict[str, Any]
) -> None:
    whole = {**asdict(Capabilities()), **dict.fromkeys(UNSAID, True), "thinking_off": True, **model}
    said = {name: value for name, value in own.items() if value is not None}
    wider = [name for name, value in said.items() if name != "priority_field" and not is_narrower(value, whole[name])]
    wider = [name for name in wider if name not in UNSAID or name in model]
    told = "models.m.deployments[0].capabilities.{0}: is more than models.m.capabilities.{0}: a deployment can do"
    assert [line.partition(" what its model can")[0] for line in errors(model, own)] == [*map(told.format, sorted(wider))]
    if not wider:
        one = compiled(model, own)
        can = asdict(one.deployments[0].capabilities or one.capabilities)
        assert msgspec.json.decode(msgspec.json.encode(can)) == {
            name: value for name, value in (whole | said).items() if name in can
        }
        assert one.deployments[0].takes_priority == (whole | said)["priority_field"]


def test_every_capability_can_be_written_of_a_deployment() -> None:
    assert DeploymentCapabilities.__struct_fields__ == Capabilities.__struct_fields__
    assert {*asdict(DeploymentCapabilities()).values()} == {None}


@pytest.mark.parametrize("own", [{}, {"tools": True, "regex": False}, {"stop": 16, "endpoints": None}, {"priority_field": True}])
def test_what_is_as_the_model_has_it_costs_nothing(own: dict[str, Any]) -> None:
    assert compiled({}, own).deployments[0].capabilities is None


def test_no_capabilities_at_all_are_the_models() -> None:
    text = "providers: {p: {base_url: https://a}}\nmodels: {m: {deployments: [{provider: p, model: x, capabilities: null}]}}"
    parsed = read(text)
    assert lines(check(parsed).errors) == []
    assert compile_catalogue(parsed.config, b"").models["m"].deployments[0].capabilities is None


def test_what_is_more_may_come_from_anywhere_and_is_not_repeated() -> None:
    text = """
providers: {p: {base_url: https://a}}
models: {m: {deployments: [{provider: p, model: x, capabilities: {stop: "${STOPS}"}}], capabilities: {stop: 4}}}
"""
    [problem] = lines(check(read(text, {"STOPS": "99"})).errors)
    assert problem.startswith("models.m.deployments[0].capabilities.stop: is more than models.m.capabilities.stop")
    assert "99" not in problem


class TestEndpoints:
    PROVIDERS = "providers: {a: {base_url: 'https://a.example/v1'}, b: {base_url: 'https://b.example/v1', endpoints: [%s]}}"

    def errors(self, endpoint: str, own: str = "{}") -> list[str]:
        deployments = f"[{{provider: a, model: x}}, {{provider: b, model: x, capabilities: {own}}}]"
        models = f"models: {{m: {{deployments: {deployments}, capabilities: {{endpoints: [chat, {endpoint}]}}}}}}"
        return lines(check(read(f"{self.PROVIDERS % endpoint}\n{models}")).errors)

    @pytest.mark.parametrize("endpoint", ["embeddings", "responses"])
    def test_a_model_has_what_one_of_its_providers_has(self, endpoint: str) -> None:
        assert self.errors(endpoint) == []
        assert self.errors(endpoint, f"{{endpoints: [{endpoint}]}}") == []

    @pytest.mark.parametrize("endpoint", ["embeddings", "responses"])
    def test_a_deployment_that_is_not_for_it_does_not_count(self, endpoint: str) -> None:
        assert self.errors(endpoint, "{endpoints: [chat]}") == [
            f"models.m.capabilities.endpoints: none of its providers serves {endpoint}: add it to their endpoints"
        ]

    def test_nor_is_a_deployment_for_what_its_provider_has_not(self) -> None:
        assert errors({"endpoints": None}, {"endpoints": ["chat", "embeddings"]}) == [
            "models.m.deployments[0].capabilities.endpoints: none of its providers serves embeddings: add it to their endpoints"
        ]


class TestPriorityField:
    def test_a_deployment_may_have_it_whatever_its_model_says(self) -> None:
        first, second, third = compiled({}, {"priority_field": True}, {}, {"priority_field": False}).deployments
        assert (first.takes_priority, second.takes_priority, third.takes_priority) == (True, False, False)
        first, second, third = compiled(
            {"priority_field": True}, {"priority_field": True}, {}, {"priority_field": False}
        ).deployments
        assert (first.takes_priority, second.takes_priority, third.takes_priority) == (True, True, False)

    def test_it_means_nothing_to_anthropic(self) -> None:
        assert errors({}, {"priority_field": True}, dialects=("anthropic",)) == [
            "models.m.deployments[0].capabilities.priority_field: means nothing in the dialect anthropic"
        ]
        assert errors({"priority_field": True}, {}, dialects=("anthropic",)) == [
            "models.m.capabilities.priority_field: means nothing in the dialect anthropic"
        ]
        assert errors({}, {"priority_field": False}, dialects=("anthropic",)) == []

    def test_a_models_is_for_those_that_understand_it(self) -> None:
        both = compiled({"priority_field": True}, {}, {}, dialects=("openai", "anthropic"))
        assert [each.takes_priority for each in both.deployments] == [True, False]

    def test_what_a_dialect_has_no_use_for_is_a_capability(self) -> None:
        assert all({*nature.idle_capabilities} <= {*Capabilities.__struct_fields__} for nature in NATURES.values())


class TestKnownModels:
    """What is known of a model by its name, where the file says nothing."""

    def one(self, upstream: str, model: str = "{}", own: str = "{}", dialect: str = "anthropic") -> catalogue.Model:
        text = f"""
providers: {{p: {{base_url: https://a.example/v1, dialect: {dialect}}}}}
models: {{m: {{deployments: [{{provider: p, model: {upstream}, capabilities: {own}}}], capabilities: {model}}}}}
"""
        parsed = read(text)
        assert lines(check(parsed).errors) == []
        return compile_catalogue(parsed.config, b"").models["m"]

    def can(
        self, upstream: str, model: str = "{}", own: str = "{}", dialect: str = "anthropic"
    ) -> tuple[means.Capabilities, str]:
        found = self.one(upstream, model, own, dialect)
        return found.deployments[0].capabilities or found.capabilities, found.deployments[0].thinking

    def test_a_name_that_is_known_says_what_it_can(self) -> None:
        can, thinking = self.can("claude-opus-5-5")
        assert (can.sampling, can.forced_tools, can.thinking_off, can.prefill, thinking) == (False, False, False, False, "always")
        can, thinking = self.can("claude-opus-4-7")
        assert (can.sampling, can.forced_tools, can.thinking_off, can.prefill, thinking) == (False, True, True, False, "adaptive")

    def test_a_name_that_is_not_can_do_all(self) -> None:
        for upstream, dialect in (("claude-of-ours", "anthropic"), ("claude-opus-5-5", "openai")):
            assert self.can(upstream, dialect=dialect) == (means.Capabilities(), "budget")

    def test_the_file_wins(self) -> None:
        free = "{thinking: budget, sampling: true, temperature_with_top_p: true, forced_tools: true, prefill: true}"
        assert self.can("claude-opus-5-5", free) == self.can("claude-opus-5-5", "{}", free) == (means.Capabilities(), "budget")
        can, thinking = self.can("claude-opus-5-5", "{sampling: true}", "{thinking: adaptive}")
        assert (can.sampling, can.forced_tools, can.thinking_off, thinking) == (True, False, True, "adaptive")

    def test_a_model_says_for_its_deployments_what_they_do_not(self) -> None:
        found = self.one("x", "{thinking: always, sampling: false}")
        assert found.deployments[0].capabilities is None
        assert (found.capabilities.sampling, found.capabilities.thinking_off) == (False, False)
        assert found.deployments[0].thinking == "always"
