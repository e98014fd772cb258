"""`tiergate explain` as an operator meets it: files on a disk, what is printed, exit codes."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from gateway.cli import tiergate
from gateway.config.price_list import price_list

EXAMPLE = Path(__file__).parents[3] / "config" / "gateway.yaml"
ENVIRON = {
    "DEEPINFRA_API_KEY": "sk-of-a",
    "NEBIUS_API_KEY": "sk-of-b",
    "CI_KEY": "secret-of-ci-012",
    "NIGHTLY_KEY": "secret-of-nightly",
}
SECRETS = (*ENVIRON.values(), "hmac-sha256", "what-is-asked")

SMALL = """
providers: {near: {base_url: "https://near.example/v1", api_key: sk-near, endpoints: [chat, completions], unknown_fields: drop}}
models:
  small:
    deployments: [{provider: near, model: s, max_concurrency: 4}]
    price: {input: 1, output: 2}
    max_output_tokens: 100
plans: {free: {limits: {rpm: 20, tpm: 4000}}}
keys: [{name: me, plan: free, secret: secret-of-mine-0}]
"""


def body(**members: Any) -> bytes:
    return msgspec.json.encode({"model": "llama-3.3-70b", "messages": [{"role": "user", "content": "what-is-asked"}], **members})


def explain(path: Path, key: str, asked: bytes, *options: str) -> Result:
    arguments = ["explain", str(path), "--key", key, "--request", "-", *options]
    return CliRunner().invoke(tiergate, arguments, obj=ENVIRON, input=asked)


def told(path: Path, key: str, asked: bytes, *options: str) -> dict[str, Any]:
    result = explain(path, key, asked, "--json", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    found: dict[str, Any] = msgspec.json.decode(result.stdout)
    return found


def test_people_read_the_decisions_first_and_the_targets_below(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(SMALL)
    asked = msgspec.json.encode({"model": "small", "prompt": "hello", "max_tokens": 500, "top_k_of_theirs": 1})
    result = explain(path, "me", asked)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "request     completions, by key me (org default, plan free)\n"
        "tier        default, for no service_tier: what an absent service_tier means on completions\n"
        "over limit  no: only auto is served over the limit\n"
        "class       default, at small: priority's turn comes before it, four to one\n"
        "waits       up to 30 s, with 32 others, 16 of the org: tiers.default.queue, models.small.queue, no\n"
        "            longer than x-request-timeout\n"
        "models      small at default: asked for\n"
        "leads on    capacity, unavailable (fallback.on); 6 attempts at the most\n"
        "holds       3 + 100 tokens: input estimated from the prompt's bytes; output the model's\n"
        "            max_output_tokens 100\n"
        "cost        203 micro-USD (203000 nano-USD): the dearest target: small/near/s at default\n"
        "\n"
        "1. small/near/s at default\n"
        "   default class; order 1, weight 1; sent no service_tier\n"
        "   holds 3 + 100 tokens, costs 203 micro-USD (203000 nano-USD): the model's price x 1,\n"
        "     tiers.default.price\n"
        "   price config-e95c2804; what you pay is not known\n"
        "   drops top_k_of_theirs\n"
        "   lowers max_tokens=100\n"
        "   default spends the rates of key and org\n"
        "   scope       counts       limit  burst  a minute  takes  if full  rule\n"
        "   key         rpm             20     20        20      1  429      limits of key or plan\n"
        "   key         tpm           4000   4000      4000    103  429      limits of key or plan\n"
        "   deployment  concurrency      4      4         -      1  next     slots x headroom 1\n"
        "\n"
        "If full: 'next' waits where its model is waited for, then tries the next target; '429' ends the\n"
        "walk; 'never' is a bucket that is smaller than the request.\n"
    )


def test_the_example_is_explained_in_a_hundred_columns() -> None:
    result = explain(EXAMPLE, "ci", body())
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "2. llama-3.3-70b/nebius/meta-llama/Llama-3.3-70B-Instruct at default" in result.stdout.splitlines()


def test_people_read_what_orders_the_targets(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    second = "deployments: [{provider: near, model: t, weight: 2}, {"
    path.write_text(SMALL.replace("deployments: [{", second).replace("    price:", "    strategy: least_busy\n    price:"))
    asked = msgspec.json.encode({"model": "small", "prompt": "hello"})
    text = explain(path, "me", asked).stdout
    assert (
        "models      small at default: asked for; least_busy: of one order the smallest share of room in use\n"
        "            comes first, as each worker finds it, which is not known here: the heaviest is named\n"
        "            first\n"
    ) in text
    assert "order 1, weight 2, first of its order by its strategy; sent" in text
    found = told(path, "me", asked)
    assert found["chain"]["models"][0]["strategy"] == "least_busy"
    assert [each["first_choice_share"] for each in found["targets"]] == [None, None]


def test_programs_read_names_that_stay() -> None:
    found = told(EXAMPLE, "ci", body(max_tokens=100, store=True))
    assert list(found) == ["endpoint", "caller", "refused", "tier", "chain", "waiting", "targets", "estimated_cost"]
    assert (found["endpoint"], found["refused"], found["tier"]["tier"]) == ("chat", None, "default")
    assert found["caller"] == {"key": "ci", "org": "acme", "project": "support", "plan": "pro", "only_from": []}
    assert [(each["model"], each["provider"], each["tier"]) for each in found["targets"]] == [
        (name, provider, tier)
        for name in ("llama-3.3-70b", "llama-3.1-8b")
        for tier in ("default", "over-limit")
        for provider in ("deepinfra", "nebius")
    ]
    first = found["targets"][0]
    assert first["dropped_params"] == ["store"]
    assert first["charges"][3] == {
        "scope": "key x model",
        "bucket": "km:ci:llama-3.3-70b",
        "dimension": "rpm",
        "limit": 300,
        "burst": 300,
        "rate": 300,
        "period_s": 60,
        "cost": 1,
        "unit": "requests",
        "ends_walk": False,
        "fits": True,
        "rule": "per_model of key or plan",
    }
    assert found["estimated_cost"]["cost_nano_usd"] == 230 * first["hold"]["input_tokens"] + 400 * 100


CATALOGUED = """
providers: {openai: {preset: openai, api_key: sk-of-the-operator}}
models: {big: {max_output_tokens: 100, deployments: [{provider: openai, model: gpt-4o}]}}
plans: {free: {tiers: [default, priority]}}
orgs: {acme: {plan: free}}
keys: [{name: ci, org: acme, secret: 0123456789abcdef}]
"""


def test_the_price_comes_with_its_source_and_its_version(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(CATALOGUED)
    (target,) = told(path, "ci", body(model="big", service_tier="priority"))["targets"]
    price, cost, held = target["price"], target["cost"], target["hold"]["input_tokens"]
    assert (price["source"], price["cost_source"]) == ("the catalogue's price of openai/gpt-4o",) * 2
    assert price["version"] == price_list().version
    assert (price["input_nano_usd_per_token"], price["output_nano_usd_per_token"], price["multiplier"]) == (4250, 17_000, 1.0)
    assert cost["rule"] == "the catalogue's price of openai/gpt-4o, its own for priority"
    assert price["steps"] == []
    assert cost["cost_nano_usd"] == cost["own_cost_nano_usd"] == held * 4250 + 100 * 17_000
    path.write_text(CATALOGUED.replace("gpt-4o", "gpt-5.5"))
    (target,) = told(path, "ci", body(model="big"))["targets"]
    long = {"above_tokens": 272_000, "input_nano_usd_per_token": 10_000, "output_nano_usd_per_token": 45_000}
    assert target["price"]["steps"] == [long]
    text = explain(path, "ci", body(model="big")).output
    assert f"price {price_list().version}; you pay " in " ".join(text.split())


def test_several_credentials_are_named_and_none_shows(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(CATALOGUED.replace("api_key: sk-of-the-operator", "api_keys: [sk-of-one, sk-of-another]"))
    [target] = told(path, "ci", body(model="big"))["targets"]
    assert (target["credentials"], target["first_choice_share"]) == (["openai", "openai#2"], 1.0)
    output = explain(path, "ci", body(model="big")).output
    assert "takes one of 2 credentials, in any order: openai, openai#2" in output
    assert "sk-of" not in output


def test_the_endpoint_and_the_project_may_be_given() -> None:
    assert told(EXAMPLE, "ci", body(), "--endpoint", "completions")["refused"]["param"] == "prompt"
    assert told(EXAMPLE, "ci", body(), "--project", "search")["caller"]["project"] == "search"
    assert told(EXAMPLE, "ci", body(), "--project", "secrets")["refused"]["code"] == "project_not_allowed"


@pytest.mark.parametrize(
    ("asked", "status", "code", "param"),
    [
        (b'{"model": "llama', 400, "invalid_json", None),
        (body(n="2", messages=[]), 422, "out_of_range", "messages"),
        (body(model="llama"), 404, "model_not_found", "model"),
        (body(service_tier="no-limit"), 400, "invalid_value", "service_tier"),
        (body(messages=[{"role": "user", "content": "long " * 700_000}]), 429, "rate_limit_exceeded", None),
    ],
)
def test_a_refusal_is_an_explanation(asked: bytes, status: int, code: str, param: str | None) -> None:
    refused = told(EXAMPLE, "ci", asked)["refused"]
    assert (refused["status"], refused["code"], refused["param"]) == (status, code, param)
    lines = explain(EXAMPLE, "ci", asked).stdout.splitlines()
    assert lines[1].startswith(f"refused     {status} {code} (type {refused['type']}")
    assert lines[2].strip() in refused["message"]


def test_all_bad_fields_are_printed() -> None:
    assert "            body.n: Input should be a valid integer\n" in explain(EXAMPLE, "ci", body(n="2", messages=[])).stdout


def test_a_bucket_that_is_too_small_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(SMALL.replace("tpm: 4000", "tpm: 60"))
    result = explain(path, "me", msgspec.json.encode({"model": "small", "prompt": "hello", "max_tokens": 90}))
    assert "refused     429 rate_limit_exceeded (type tokens, x-should-retry false)\n" in result.stdout
    assert [line.split()[6] for line in result.stdout.splitlines() if line.startswith("   key ")] == ["429", "never"]


def test_a_request_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(body())
    arguments = ["explain", str(EXAMPLE), "--key", "ci", "--request", str(path)]
    assert CliRunner().invoke(tiergate, arguments, obj=ENVIRON).stdout == explain(EXAMPLE, "ci", body()).stdout


def test_an_unknown_key_is_named_with_the_nearest_one() -> None:
    result = explain(EXAMPLE, "nigthly", body())
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: unknown key 'nigthly' (did you mean 'nightly'?)\n"


def test_a_bad_configuration_is_told_as_check_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(SMALL.replace("provider: near,", "provider: naer,"))
    result = explain(path, "me", body())
    assert (result.exit_code, result.stdout) == (78, "")
    assert result.stderr == CliRunner().invoke(tiergate, ["check", str(path)], obj={}).stderr


@pytest.mark.parametrize("options", [(), ("--request", "no-such-file")])
def test_a_request_is_needed(options: tuple[str, ...]) -> None:
    result = CliRunner().invoke(tiergate, ["explain", str(EXAMPLE), "--key", "ci", *options], obj=ENVIRON)
    assert result.exit_code == 2


def test_no_secret_and_nothing_that_is_asked_is_printed() -> None:
    for asked in body(), body(service_tier="flex"), body(n="2"), body(models=["nope"]):
        for options in (), ("--json",):
            printed = explain(EXAMPLE, "ci", asked, *options).output
            assert not any(secret in printed for secret in SECRETS)


def test_a_prefix_has_the_contract_that_it_is_read_by(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(SMALL)
    asked = msgspec.json.encode({"model": "small", "messages": [{"role": "user", "content": "hi"}], "n": 5})
    assert told(path, "me", asked)["refused"] is None
    refused = told(path, "me", asked, "--prefix", "/deepinfra/v1")["refused"]
    assert (refused["status"], refused["param"]) == (422, "n")
    result = explain(path, "me", asked, "--prefix", "/deepinfra/v2")
    assert (result.exit_code, result.stderr) == (1, "Error: unknown prefix '/deepinfra/v2' (did you mean '/deepinfra/v1'?)\n")


LESSER = """
providers: {near: {base_url: "https://near.example/v1"}, far: {base_url: "https://far.example/v1"}}
models:
  small:
    deployments:
      - {provider: near, model: s, capabilities: {tools: false, stop: 2}}
      - {provider: far, model: s, capabilities: {priority_field: true}}
plans: {free: {tiers: [default, flex]}}
keys: [{name: me, plan: free, secret: secret-of-mine-0}]
"""


def test_a_deployment_that_cannot_is_left_out_and_vllms_priority_is_told(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(LESSER)
    lines = explain(path, "me", body(model="small", tools=[{}], service_tier="flex", priority=-9)).stdout.splitlines()
    assert "left out    small/near/s: its capabilities.tools is false" in lines
    assert "   flex class; order 1, weight 1; sent no service_tier, priority 2" in lines
    assert "   drops priority" in lines
    near, far = told(path, "me", body(model="small", service_tier="flex"))["targets"]
    assert (near["provider_priority"], far["provider_priority"]) == (None, 2)
