"""What single fields become, and that nothing is given that was not."""

import pytest
from yaml import safe_load

from gateway.config.price_list import decode
from gateway.importing.known import of as known_of
from tests.unit.importing.reading import entry, model, of, said, translated


def test_what_is_not_spoken_is_left_out_whole() -> None:
    found = of(entry(), "{model_name: m, litellm_params: {model: bedrock/x, aws_region_name: r}}")
    assert len(model(found)["deployments"]) == 1
    told = said(found)
    assert told["model_list[1]"].kind == "ignored"
    assert [where for where in told if where.startswith("model_list[1]")] == ["model_list[1]"]


@pytest.mark.parametrize(
    ("params", "info"),
    [
        ("rpm: 0", ""),
        ("tpm: many", ""),
        ("max_parallel_requests: -1", ""),
        ("mock_response: hi", ""),
        ("", "team_id: t"),
        ("", "mode: audio_speech"),
        ("", "supported_environments: [staging]"),
        ("litellm_credential_name: nowhere", ""),
        ("input_cost_per_token: dear", ""),
    ],
)
def test_a_deployment_with_a_bound_that_cannot_be_kept_serves_nobody(params: str, info: str) -> None:
    found = of(entry(params, info))
    assert found.document["models"] == {}
    assert "not importable" in said(found)["model_list[0]"].note


def test_one_that_wants_a_tag_serves_nobody_where_tags_route() -> None:
    rest = "router_settings: {enable_tag_filtering: true}"
    assert of(entry("tags: [paid]"), rest=rest).document["models"] == {}
    assert [*of(entry("tags: [paid]")).document["models"]] == ["m"]
    assert [*of(entry("tags: [default]"), rest=rest).document["models"]] == ["m"]


@pytest.mark.parametrize(
    ("given", "provider"),
    [
        ("model: openai/m", {"preset": "openai", "api_key": "${OPENAI_API_KEY}"}),
        ("model: gpt-4o", {"preset": "openai", "api_key": "${OPENAI_API_KEY}"}),
        ("model: m, custom_llm_provider: groq", {"preset": "groq", "api_key": "${GROQ_API_KEY}"}),
        (
            "model: anthropic/m, api_base: 'https://a.example.com/'",
            {"preset": "anthropic", "base_url": "https://a.example.com/v1"},
        ),
        (
            "model: azure/m, api_base: 'https://a.openai.azure.com/', api_version: preview",
            {"base_url": "https://a.openai.azure.com/openai/v1"},
        ),
        (
            "model: azure/m, api_base: 'https://a.openai.azure.com/openai/v1/'",
            {"base_url": "https://a.openai.azure.com/openai/v1"},
        ),
        (
            "model: azure/m",
            {
                "base_url": "${AZURE_API_BASE}/openai",
                "api_version": "${AZURE_API_VERSION:-2025-02-01-preview}",
                "api_key": "${AZURE_API_KEY}",
            },
        ),
        ("model: ollama/m", {"preset": "ollama", "base_url": "http://localhost:11434/v1", "allow_http": True}),
        ("model: hosted_vllm/m", {"preset": "vllm", "base_url": "${HOSTED_VLLM_API_BASE}"}),
        ("model: openai/m, api_base: 'https://api.openai.com/v1'", {"preset": "openai"}),
        ("model: openai/m, organization: os.environ/ORG", {"headers": {"OpenAI-Organization": "${ORG}"}}),
    ],
)
def test_a_prefix_says_where_a_model_is(given: str, provider: dict[str, object]) -> None:
    found = translated(f"model_list: [{{model_name: m, litellm_params: {{{given}}}}}]")
    [account] = found.document["providers"].values()
    assert account | provider == account


@pytest.mark.parametrize(
    "given", ["model: nobody-knows", "model: palm/x", "model: new/x", "model: custom_openai/x", "api_key: k"]
)
def test_what_is_nowhere_is_not_guessed(given: str) -> None:
    assert translated(f"model_list: [{{model_name: m, litellm_params: {{{given}}}}}]").document["models"] == {}


def test_a_reference_of_ours_in_a_text_of_theirs_is_not_obeyed() -> None:
    found = translated("model_list: [{model_name: m, litellm_params: {model: openai/m, api_key: 'a${HOME}'}}]")
    assert found.document["models"] == {}
    assert "HOME" not in said(found)["model_list[0]"].note


def test_headers_that_the_gateway_writes_are_left_out() -> None:
    found = of(entry("extra_headers: {Authorization: x, X-Own: y}"))
    [account] = found.document["providers"].values()
    assert account["headers"] == {"X-Own": "y"}
    assert said(found)["model_list[0].litellm_params.extra_headers.Authorization"].kind == "ignored"


@pytest.mark.parametrize(
    ("theirs", "ours", "kind"),
    [
        ("simple-shuffle", None, "exact"),
        ("least-busy", "least_busy", "approximate"),
        ("latency-based-routing", "latency", "approximate"),
        ("cost-based-routing", None, "approximate"),
        ("[nonsense]", None, "approximate"),
    ],
)
def test_a_strategy_is_carried_to_every_model(theirs: str, ours: str | None, kind: str) -> None:
    found = of(entry(), rest=f"router_settings: {{routing_strategy: {theirs}}}")
    assert model(found).get("strategy") == ours
    finding = said(found)["router_settings.routing_strategy"]
    assert finding.kind == kind
    assert (finding.into == "models.*.strategy") == (ours is not None or kind == "exact")
    assert (f"# {ours}: {finding.note}\nmodels:" in found.text()) == (ours is not None)


def test_the_same_twice_is_one_deployment_with_the_sum_of_both() -> None:
    found = of(entry("rpm: 10, max_parallel_requests: 2"), entry("rpm: 20, max_parallel_requests: 3"))
    assert model(found)["deployments"] == [
        {"provider": "openai", "model": "m", "max_concurrency": 5, "weight": 3, "limits": {"rpm": 30}}
    ]
    assert said(found)["model_list[1]"].kind == "approximate"


def test_a_bound_that_one_of_two_lacks_bounds_neither() -> None:
    [found] = model(of(entry("rpm: 10, max_parallel_requests: 2"), entry()))["deployments"]
    assert "limits" not in found
    assert "max_concurrency" not in found


def test_one_without_an_order_comes_last() -> None:
    found = of(entry("order: 3"), "{model_name: m, litellm_params: {model: openai/n, api_key: k}}")
    assert [(each["model"], each.get("order", 1)) for each in model(found)["deployments"]] == [("m", 1), ("n", 2)]


def test_a_short_master_key_is_nobodys() -> None:
    found = of(entry(), rest="general_settings: {master_key: sk-1234}")
    assert "ops" not in found.document
    assert "keys" not in found.document
    assert said(found)["general_settings.master_key"].kind == "ignored"


def test_a_budget_for_ever_ends_the_files_keys() -> None:
    rest = "litellm_settings: {max_budget: 10}\ngeneral_settings: {master_key: os.environ/MASTER}"
    found = of(entry("input_cost_per_token: 1, output_cost_per_token: 1"), rest=rest)
    assert found.document["orgs"] == {"default": {"budget": {"usd": 10, "period": "month"}}}
    [key] = found.document["keys"]
    assert key["expires"] == "2099-01-01"


def test_bounds_that_are_no_numbers_are_told() -> None:
    found = of(entry(), rest="router_settings: {timeout: never, cooldown_time: soon}\nlitellm_settings: {max_budget: much}")
    assert {said(found)[f"router_settings.{name}"].kind for name in ("timeout", "cooldown_time")} == {"ignored"}
    assert said(found)["litellm_settings.max_budget"].kind == "ignored"


def test_wildcards_are_all_that_is_known() -> None:
    text = """
    model_list:
      - {model_name: openai/*, litellm_params: {model: openai/*, api_key: k}}
      - {model_name: openai/a, litellm_params: {model: openai/a, api_key: other}}
      - {model_name: "*", litellm_params: {model: groq/*}}
      - {model_name: x-*, litellm_params: {model: openai/a}}
      - {model_name: "*", litellm_params: {model: "*"}}
    """
    found = translated(text, {"openai": ["a", "b"], "groq": ["l", "not a name"]})
    assert [*found.document["models"]] == ["openai/b", "openai/a", "l"]
    told = said(found)
    assert told["model_list[0].model_name"].kind == "approximate"
    assert (told["model_list[3]"].kind, told["model_list[4]"].kind) == ("ignored", "ignored")
    assert translated(text).document["models"].keys() == {"openai/a"}


def test_a_catalogue_tells_whose_models_are_whose() -> None:
    price = '"prices": [{"input": "1", "output": "2"}]'
    models = ", ".join(f'{{"id": "{each}", "names": ["{each}*"], {price}}}' for each in ("a", "family-"))
    found = {"openai": f'{{"presets": ["openai", "azure"], "models": [{models}]}}', "x": '{"models": []}'}
    providers = ", ".join(f'"{name}": {source}' for name, source in found.items())
    raw = f'{{"source": "s", "version": "v", "providers": {{{providers}}}}}'
    assert known_of(decode(raw)) == {"openai": ["a"], "azure": ["a"]}


def test_a_model_is_priced_by_the_file_or_by_the_catalogue() -> None:
    found = of(
        "{model_name: written, litellm_params: {model: openai/x, input_cost_per_token: 1e-6, output_cost_per_token: 1e-6}}",
        "{model_name: listed, litellm_params: {model: openai/gpt-4o}}",
        "{model_name: nobodys, litellm_params: {model: openai/nobody-knows}}",
        "{model_name: at-heart, litellm_params: {model: azure/ours}, model_info: {base_model: azure/gpt-4o}}",
        "{model_name: unheard, litellm_params: {model: azure/ours}, model_info: {base_model: azure/nothing}}",
    )
    assert found.names.priced == {"written", "listed", "at-heart"}
    assert model(found, "at-heart")["price"]["input"] > 0
    assert "price" not in model(found, "listed")
    told = said(found)
    assert told["model_list[3].model_info.base_model"].kind == "approximate"
    assert told["model_list[4].model_info.base_model"].kind == "ignored"


def test_a_file_says_what_it_holds() -> None:
    rest = "litellm_settings: {cache: true}\nmcp_servers: {x: {url: y}}\nnew_section: 1\nrouter_settings: nonsense"
    found = of(entry("api_base: os.environ/BASE"), "nonsense", rest=rest)
    told = said(found)
    assert {told[where].kind for where in ("mcp_servers", "new_section", "router_settings", "model_list[1]")} == {"ignored"}
    assert safe_load(found.text())["models"] == found.document["models"]
    assert "# a variable: allow_http" in found.text()


def test_a_database_of_ours_is_written_without_its_password() -> None:
    found = of(entry())
    assert safe_load(found.text("postgresql://u:secret@h/d"))["database"]["url"] == "${TIERGATE_DATABASE_URL}"
    assert safe_load(found.text("sqlite:///var/x.db"))["database"]["url"] == "sqlite:///var/x.db"


@pytest.mark.parametrize(
    ("routes", "endpoints"),
    [
        ("[/chat/completions, /v1/embeddings]", {"chat": ["chat", "embeddings"], "embed": ["embeddings"]}),
        ("[/v1/chat/completions]", {"chat": ["chat"]}),
        ("[llm_api_routes]", {"chat": ["chat", "completions", "embeddings", "messages", "responses"], "embed": ["embeddings"]}),
        ("[/key/info]", {}),
    ],
)
def test_what_the_proxy_does_not_serve_is_not_served(routes: str, endpoints: dict[str, list[str]]) -> None:
    text = """
    model_list:
      - {model_name: chat, litellm_params: {model: openai/a, api_key: k}}
      - {model_name: embed, litellm_params: {model: openai/b, api_key: k}, model_info: {mode: embedding}}
    """
    found = translated(f"{text}\n    general_settings: {{allowed_routes: {routes}}}")
    assert {name: each["capabilities"]["endpoints"] for name, each in found.document["models"].items()} == endpoints


def test_a_list_of_addresses_that_is_empty_lets_nobody_in() -> None:
    found = of(entry(), rest="general_settings: {master_key: os.environ/MASTER, allowed_ips: []}")
    assert found.document["keys"][0]["ips"] == ["0.0.0.0/32"] == list(found.names.ips)
