from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.policy.catalogue import (
    Budget,
    Catalogue,
    Deployment,
    Dynamic,
    Guards,
    Key,
    Limits,
    Queue,
    Secret,
    Tier,
    TierTerms,
)
from gateway.policy.explain import Asked, barred, endpoint_of, explain
from gateway.policy.explanation import Explanation
from gateway.policy.fallback import Fallback
from gateway.policy.means import Capabilities
from gateway.policy.prices import Price
from gateway.policy.strategy import Strategy
from gateway.providers import NATURES
from gateway.wire.request import Endpoint, InferenceRequest
from tests.catalogues import TERMS, catalogue, deployment, key, model, provider

EVERY = frozenset(Endpoint)
P1 = provider("p1", endpoints=EVERY, tiers={Tier.DEFAULT: "standard", Tier.FLEX: "flex"})
P2 = provider("p2")
PRICE = Price(input=100, output=200)


def body(**members: Any) -> bytes:
    asked = {"model": "A", "messages": [{"role": "user", "content": "hi"}], **members}
    return msgspec.json.encode({name: value for name, value in asked.items() if value is not None})


def told(of: Catalogue, by: Key, *, project: str | None = None, now_unix_s: float = 0, **members: Any) -> Explanation:
    raw = body(**members)
    asked = Asked(endpoint=endpoint_of(raw), body=raw, project=project, now_unix_s=now_unix_s)
    return explain(of, by, asked, left_by)


def of_messages(of: Catalogue, **members: Any) -> Explanation:
    raw = body(max_tokens=9, **members)
    return explain(of, key(), Asked(endpoint=Endpoint.MESSAGES, body=raw, project=None, now_unix_s=0), left_by)


def left_by(request: InferenceRequest, deployment: Deployment, tier: Tier) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ("seed",) if "seed" in request.fields else (), ("top_p=1",) if "top_p" in request.fields else ()


def queueing(of: Catalogue) -> Catalogue:
    return replace(of, tiers={tier: replace(terms, queue_s=30.0) for tier, terms in TERMS.items()})


def test_the_heavier_of_equals_comes_first_with_its_chance() -> None:
    deployments = (deployment("A", P1, order=2), deployment("A", P2), deployment("A", provider("p3"), weight=3))
    found = told(catalogue(model("A", *deployments)), key())
    assert [(each.provider, each.first_choice_share) for each in found.targets] == [("p3", 0.75), ("p2", 0.25), ("p1", 1.0)]


@pytest.mark.parametrize("strategy", [Strategy.LEAST_BUSY, Strategy.LATENCY])
def test_a_strategy_is_named_and_its_figures_are_not_known(strategy: Strategy) -> None:
    deployments = (deployment("A", P1, order=2), deployment("A", P2), deployment("A", provider("p3"), weight=3))
    found = told(catalogue(model("A", *deployments, strategy=strategy)), key())
    assert [(each.provider, each.first_choice_share) for each in found.targets] == [("p3", None), ("p2", None), ("p1", 1.0)]
    assert found.chain is not None
    [step] = found.chain.models
    assert step.strategy is strategy
    assert step.rule.startswith(f"asked for; {strategy}: of one order ")
    assert step.rule.endswith("which is not known here: the heaviest is named first")


def test_a_detour_says_so_and_has_no_share_in_the_others_chances() -> None:
    found = told(catalogue(model("A", deployment("A", P2), deployment("A", P1))), key(), messages=None, prompt="x")
    assert [(each.provider, each.first_choice_share) for each in found.targets] == [("p1", 1.0), ("p2", 1.0)]
    native, detour = (each.rule for each in found.targets)
    assert detour == f"{native}; completions are made of its chat, after every deployment that has completions"


def test_messages_are_explained_too() -> None:
    of = catalogue(model("A", deployment("A", P2), deployment("A", P1)))
    native, detour = (each.rule for each in of_messages(of).targets)
    assert detour == f"{native}; messages are made of its chat, after every deployment that has messages"
    found = of_messages(of, tools=[{"type": "bash_20250124", "name": "bash"}])
    assert [each.provider for each in found.targets] == ["p1"]
    assert "and chat cannot take this 'tools'" in repr(found)


@pytest.mark.parametrize(
    ("members", "rights", "expected"),
    [
        ({}, {}, ("default", False, "what an absent service_tier means on chat; auto: overflow")),
        ({"messages": None, "prompt": "x"}, {}, ("default", False, "what an absent service_tier means on completions")),
        ({"messages": None, "input": "x"}, {}, ("default", False, "what an absent service_tier means on embeddings")),
        ({}, {"default_tier": "flex"}, ("flex", False, "the key's default_tier")),
        ({"service_tier": "fast"}, {}, ("priority", False, "asked for; 'fast' means priority")),
        ({"service_tier": "flex"}, {}, ("flex", False, "asked for")),
        ({"service_tier": "auto"}, {"auto": "priority"}, ("priority", False, "asked for; auto: priority")),
        (
            {"service_tier": "auto"},
            {"auto": "priority", "tiers": frozenset({Tier.DEFAULT})},
            ("default", True, "asked for; auto: priority; the key may not use priority"),
        ),
        (
            {"service_tier": "auto"},
            {"auto": "project", "project": "s", "project_tiers": {"s": Tier.FLEX}},
            ("flex", False, "asked for; auto: project, which is 's'"),
        ),
        ({}, {"default_tier": "no-limit"}, ("default", True, "the key's default_tier; the key may not use no-limit")),
    ],
)
def test_the_tier_comes_with_its_rule(members: dict[str, Any], rights: dict[str, Any], expected: tuple[str, bool, str]) -> None:
    tier = told(catalogue(model("A", deployment("A", P1))), key(**rights), **members).tier
    assert tier is not None
    assert (tier.tier, tier.downgraded, tier.rule) == expected


@pytest.mark.parametrize(
    ("members", "rights", "expected"),
    [
        ({}, {"over_limit": Guards()}, (True, "served over the limit where a rate of key or org refuses")),
        ({}, {}, (False, "over_limit of key or plan is false")),
        ({"service_tier": "default"}, {"over_limit": Guards()}, (False, "only auto is served over the limit")),
        ({}, {"over_limit": Guards(), "auto": "priority"}, (False, "auto led to priority, which is never over the limit")),
    ],
)
def test_service_over_the_limit_comes_with_its_rule(
    members: dict[str, Any], rights: dict[str, Any], expected: tuple[bool, str]
) -> None:
    tier = told(catalogue(model("A")), key(**rights), **members).tier
    assert tier is not None
    assert (tier.over_limit, tier.over_limit_rule) == expected


def test_a_model_without_the_tier_says_so() -> None:
    models = model("A", tiers=frozenset({Tier.DEFAULT}), fallbacks=("B",)), model("B")
    flex = told(catalogue(*models), key(), service_tier="flex").chain
    auto = told(catalogue(*models), key(over_limit=Guards())).chain
    assert flex is not None
    assert auto is not None
    assert [(step.tiers, step.rule) for step in flex.models] == [
        ((Tier.DEFAULT,), "asked for; does not offer flex"),
        ((Tier.FLEX,), "in the fallbacks of the model asked for"),
    ]
    assert auto.models[0].rule == "asked for; does not offer over-limit"
    assert auto.models[1].tiers == (Tier.DEFAULT, Tier.OVER_LIMIT)


def test_what_is_left_out_comes_with_its_reason() -> None:
    models = (
        model("A", deployment("A", P1), deployment("A", P2), deployment("A", provider("x")), fallbacks=("B", "C", "D", "E")),
        *(model(name, deployment(name, P1)) for name in ("B", "D", "E")),
        model("C", deployment("C", P1), capabilities=Capabilities(suffix=False)),
    )
    of = replace(catalogue(*models), fallback=Fallback(max_models=3))
    by = key(models=("A", "C", "D", "E"), providers=("p*", "x"))
    chain = told(of, by, messages=None, prompt="x", suffix="y").chain
    assert chain is not None
    assert [step.model for step in chain.models] == ["A", "D"]
    assert [(left.deployment or left.model, left.rule) for left in chain.left_out] == [
        ("B", "the key's models do not allow it"),
        ("C", "The model 'C' does not support 'suffix'"),
        ("E", "fallback.max_models is 3"),
        ("A/p2", "providers.p2.endpoints lacks completions, and chat cannot take this 'suffix'"),
        ("A/x", "providers.x.endpoints lacks completions, and chat cannot take this 'suffix'"),
    ]


def test_what_a_deployment_cannot_do_is_why_it_is_left_out() -> None:
    lesser = (
        ("toolless", Capabilities(tools=False)),
        ("blind", Capabilities(vision=False)),
        ("brief", Capabilities(stop=1, max_logprobs=2)),
        ("shallow", Capabilities(max_logprobs=2)),
        ("reader", Capabilities(endpoints=(Endpoint.COMPLETIONS,))),
    )
    deployments = (deployment("A", provider(name), capabilities=can) for name, can in lesser)
    of = catalogue(model("A", deployment("A", P1), *deployments))
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}
    found = told(of, key(), tools=[{}], stop=["a", "b"], logprobs=True, top_logprobs=3, messages=[image])
    assert found.chain is not None
    assert [(left.deployment, left.rule) for left in found.chain.left_out] == [
        ("A/toolless", "its capabilities.tools is false"),
        ("A/blind", "its capabilities.vision is false"),
        ("A/brief", "its capabilities.stop is 1"),
        ("A/shallow", "its capabilities.max_logprobs is 2"),
        ("A/reader", "its capabilities.endpoints lacks chat"),
    ]
    assert [each.provider for each in found.targets] == ["p1"]


def test_what_a_deployment_is_not_sent_is_told_of_it_alone() -> None:
    lesser = deployment("A", P1, capabilities=Capabilities(max_logprobs=1))
    of = catalogue(model("A", lesser, deployment("A", P2, order=2), capabilities=Capabilities(ignore_eos=True)))
    found = told(of, key(), messages=None, prompt="x", logprobs=5, ignore_eos=True)
    assert [(each.provider, each.dropped_params, each.adjusted_params) for each in found.targets] == [
        ("p1", ("ignore_eos",), ("logprobs=1",)),
        ("p2", (), ()),
    ]


@pytest.mark.parametrize(("word", "priority"), [("priority", -1), ("default", None), ("flex", 2), ("no-limit", None)])
def test_the_priority_that_is_sent_for_a_tier_is_told(word: str, priority: int | None) -> None:
    of = catalogue(model("A", deployment("A", P1, takes_priority=True), deployment("A", P2, order=2)))
    found = told(of, key(allow_no_limit=True), service_tier=word)
    assert [each.provider_priority for each in found.targets] == [priority, None]


def test_a_model_that_is_named_twice_is_tried_once() -> None:
    chain = told(catalogue(model("A", aliases=("a",))), key(), models=["a", "A"]).chain
    assert chain is not None
    assert [(step.model, step.asked_as) for step in chain.models] == [("A", "a")]
    assert [(left.model, left.rule) for left in chain.left_out] == [("A", "named before")]


def test_a_provider_that_the_key_may_not_use_is_left_out() -> None:
    chain = told(catalogue(model("A", deployment("A", P1), deployment("A", P2))), key(providers=("p1",))).chain
    assert chain is not None
    assert [(left.deployment, left.rule) for left in chain.left_out] == [("A/p2", "the key's providers do not allow p2")]


BUSY = model("A", deployment("A", P1, max_concurrency=10), queue=Queue(max_waiters=8))


def test_a_wait_is_for_the_last_model_and_bounded() -> None:
    [waiting] = told(queueing(catalogue(BUSY)), key(), service_tier="fast").waiting
    assert (waiting.model, waiting.tier_class, waiting.patience_s) == ("A", "priority", 30.0)
    assert (waiting.max_waiters, waiting.max_waiters_of_org) == (8, 4)


def test_the_model_asked_for_is_waited_for_before_the_servers_own_list() -> None:
    of = queueing(catalogue(replace(BUSY, fallbacks=("B",)), model("B", deployment("B", P1))))
    assert [each.model for each in told(of, key()).waiting] == ["A", "B"]
    assert [each.model for each in told(of, key(), models=["A", "B"]).waiting] == ["B"]


@pytest.mark.parametrize(
    ("of", "members", "rule"),
    [
        (queueing(catalogue(BUSY)), {"fail_fast": True}, "fail_fast is true"),
        (catalogue(BUSY), {}, "tiers.default.queue is 0"),
    ],
)
def test_a_request_that_never_waits_says_why(of: Catalogue, members: dict[str, Any], rule: str) -> None:
    [waiting] = told(of, key(), **members).waiting
    assert (waiting.patience_s, waiting.max_waiters, waiting.rule) == (0, 0, rule)


@pytest.mark.parametrize(
    ("members", "by", "expected"),
    [
        ({"messages": []}, {}, (422, "out_of_range", "messages")),
        ({"model": "Z"}, {}, (404, "model_not_found", "model")),
        ({"service_tier": "flex"}, {"tiers": frozenset()}, (400, "invalid_value", "service_tier")),
        ({"service_tier": "best"}, {}, (422, "out_of_range", "service_tier")),
        ({"n": 2}, {"max_n": 1}, (400, "invalid_value", "n")),
        ({"project": "other"}, {}, (403, "project_not_allowed", "ai_project_id")),
        ({"messages": [], "now_unix_s": 10.0}, {"expires_at_s": 9.0}, (401, "invalid_api_key", None)),
        ({"max_tokens": 500}, {"limits": Limits(tpm=100)}, (429, "rate_limit_exceeded", None)),
    ],
)
def test_a_refusal_is_the_corridors_own(
    members: dict[str, Any], by: dict[str, Any], expected: tuple[int, str, str | None]
) -> None:
    refused = told(catalogue(model("A")), key(**by), **members).refused
    assert refused is not None
    assert (refused.status, refused.code, refused.param) == expected


def test_a_key_that_was_taken_away_hears_no_more_than_one_that_never_was() -> None:
    found = barred(key(), Endpoint.CHAT)
    assert found.refused is not None
    assert (found.refused.status, found.refused.message, found.targets) == (401, "Incorrect API key provided", ())


def test_where_a_key_may_come_from_is_told_and_not_guessed() -> None:
    found = told(catalogue(model("A")), key(ips=("10.0.0.0/8",)))
    assert (found.refused, found.caller.only_from) == (None, ("10.0.0.0/8",))


def test_a_limit_that_grows_says_how_far() -> None:
    limits = Limits(rpm=5, rpd=100, dynamic=Dynamic(window_ms=900_000, ceiling_milli=2_500))
    per_minute, per_day, *_ = told(catalogue(model("A")), key(limits=limits)).targets[0].charges
    assert per_minute.rule == f"{per_day.rule}, grows with use up to 2.5 times"


def test_a_request_above_a_whole_bucket_is_refused_and_the_bucket_marked() -> None:
    found = told(catalogue(model("A", max_output_tokens=50)), key(limits=Limits(rpm=5, tpm=40)), max_tokens=50)
    assert found.refused is not None
    assert found.refused.message.startswith("Request too large for A on tokens per minute (TPM): limit 40, requested ")
    assert found.refused.should_retry is False
    assert [charge.dimension for charge in found.targets[0].charges if not charge.fits] == ["tpm"]


def test_every_bad_field_is_told() -> None:
    refused = told(catalogue(model("A")), key(), messages=[], n="2").refused
    assert refused is not None
    assert [each.loc for each in refused.detail] == [("body", "messages"), ("body", "n")]


def test_the_estimated_cost_is_that_of_the_dearest_target_rounded_up() -> None:
    models = model("A", price=PRICE, fallbacks=("B",)), model("B", price=Price(input=1, output=1))
    found = told(catalogue(*models), key(), max_tokens=3, service_tier="fast")
    hold = found.targets[0].hold
    assert found.estimated_cost is not None
    assert found.estimated_cost.cost_nano_usd == (hold.input_tokens * 100 + 3 * 200) * 1.5
    assert found.estimated_cost.cost_micro_usd == -(-found.estimated_cost.cost_nano_usd // 1000)
    assert found.estimated_cost.rule == "the dearest target: A/p at priority"


def test_a_cost_that_nobody_knows_is_null() -> None:
    found = told(catalogue(model("A", price=PRICE, fallbacks=("B",)), model("B")), key())
    assert found.estimated_cost is not None
    assert (found.estimated_cost.cost_nano_usd, found.estimated_cost.cost_micro_usd) == (None, None)
    assert found.estimated_cost.rule == "models.B.price is missing"
    assert found.targets[0].cost.cost_nano_usd is not None


def test_parameters_that_are_left_out_or_lowered_are_named() -> None:
    asked: dict[str, Any] = {"messages": None, "prompt": "x", "max_tokens": 9, "ignore_eos": True, "seed": 1}
    target = told(catalogue(model("A", deployment("A", P1), max_output_tokens=5)), key(), **asked).targets[0]
    assert (target.dropped_params, target.adjusted_params) == (("ignore_eos", "seed"), ("max_tokens=5",))


@pytest.mark.parametrize(
    ("raw", "endpoint"),
    [
        (b'{"messages": []}', Endpoint.CHAT),
        (b'{"prompt": ""}', Endpoint.COMPLETIONS),
        (b'{"input": ""}', Endpoint.EMBEDDINGS),
        (b'{"input": "", "instructions": ""}', Endpoint.RESPONSES),
        (b'{"messages": [], "top_k": 1}', Endpoint.CHAT),
        (b"{}", Endpoint.CHAT),
        (b"[]", Endpoint.CHAT),
        (b"{", Endpoint.CHAT),
    ],
)
def test_a_body_tells_its_endpoint(raw: bytes, endpoint: Endpoint) -> None:
    assert endpoint_of(raw) is endpoint


def test_what_generates_nothing_holds_and_costs_its_input_alone() -> None:
    of = catalogue(model("A", deployment("A", P1), price=PRICE, max_output_tokens=500))
    found = told(of, key(limits=Limits(tpm=9)), messages=None, input=[1, 2, 3])
    [target] = found.targets
    assert (target.hold.input_tokens, target.hold.output_tokens, target.hold.output_source) == (3, 0, "none")
    assert target.hold.rule == "input counted from token ids; output none, embeddings generate nothing"
    assert (target.cost.cost_nano_usd, found.refused) == (300, None)


def test_nothing_secret_is_told() -> None:
    at = provider("p1", headers={"x-token": "hidden-header"}, proxy="http://hidden-proxy")
    of = catalogue(model("A", deployment("A", replace(at, api_key=Secret("hidden-key")))))
    asked = {"messages": [{"role": "user", "content": "hidden-words"}]}
    for members in asked, {**asked, "n": "hidden-number"}, {**asked, "n": 1, "service_tier": "flex"}:
        assert b"hidden" not in msgspec.json.encode(told(of, key(tiers=frozenset()), **members))
    assert "hidden" not in repr(Asked(endpoint=Endpoint.CHAT, body=body(**asked), project=None, now_unix_s=0))


def test_slots_that_nobody_declared_are_counted_without_a_limit() -> None:
    slots = told(catalogue(model("A")), key()).targets[0].charges[-1]
    assert (slots.limit, slots.burst, slots.fits, slots.rule) == (None, None, True, "no max_concurrency: congestion sets one")


def test_tiers_without_terms_are_explained_too() -> None:
    of = replace(catalogue(model("A", deployment("A", P1, max_concurrency=7))), tiers={Tier.FLEX: TierTerms(queue_s=1.0)})
    assert told(of, key(), service_tier="fast").targets[0].charges[0].rule == "slots x headroom 1"


def test_a_budget_is_told_with_what_the_dearest_target_may_cost() -> None:
    of = catalogue(model("A", price=Price(input=1, output=2)), model("B", price=Price(input=1, output=5)))
    found = told(of, key(budget=Budget(nano_usd=100)), models=["A", "B"], max_tokens=50)
    charge = found.targets[0].charges[0]
    assert (charge.scope, charge.bucket, charge.dimension, charge.unit) == ("key", "kb:month:k1", "budget", "nano-USD")
    assert (charge.limit, charge.cost, charge.fits, charge.period_s) == (
        100,
        found.targets[0].hold.input_tokens + 250,
        False,
        None,
    )
    assert charge.rule == "budget of key or plan, in each UTC month: the most that the dearest target may cost"


def test_a_budget_of_tokens_and_a_projects_limits_are_told() -> None:
    by = key(budget=Budget(tokens=9_000, period="day"), project="search", project_limits={"search": Limits(rpm=7)})
    tokens, rpm, _ = told(catalogue(model("A")), by, max_tokens=50).targets[0].charges
    assert (tokens.bucket, tokens.dimension, tokens.limit, tokens.unit) == ("kb:day:k1:tokens", "budget_tokens", 9_000, "tokens")
    assert tokens.cost == told(catalogue(model("A")), by, max_tokens=50).targets[0].hold.input_tokens + 50
    assert tokens.rule == "budget of key or plan, in each UTC day: the most that any target may take"
    assert (rpm.scope, rpm.bucket, rpm.limit, rpm.rule) == ("project", "p:acme:search", 7, "limits of the project")


@pytest.mark.parametrize(
    ("rights", "code", "words"),
    [
        ({"budget": Budget(nano_usd=100)}, "insufficient_quota", "this key, 0.0000001 USD a month"),
        ({"budget": Budget(tokens=20)}, "insufficient_quota", "this key, 20 tokens a month, which begins anew on 1970-02-01"),
        ({"budget": Budget(tokens=900), "limits": Limits(tpm=20)}, "rate_limit_exceeded", "too large"),
    ],
)
def test_what_not_even_an_unspent_budget_holds_is_told(rights: dict[str, Any], code: str, words: str) -> None:
    refused = told(catalogue(model("A", price=PRICE)), key(**rights), max_tokens=50).refused
    assert refused is not None
    assert (refused.code, words in refused.message) == (code, True)


def test_a_deployment_whose_dialect_has_no_words_is_left_out_with_the_field() -> None:
    poor = provider("poor", nature=NATURES["anthropic"])
    found = told(catalogue(model("A", deployment("A", poor), deployment("A", P2))), key(), n=2, top_p=0.5)
    assert found.chain is not None
    assert [(left.deployment, left.rule) for left in found.chain.left_out] == [
        ("A/poor", "the dialect of providers.poor (openai) has no 'n'")
    ]
    assert [target.deployment for target in found.targets] == ["A/p2"]
    assert found.targets[0].adjusted_params == ("top_p=1",)


def test_what_current_models_and_some_providers_refuse_is_why_they_are_left_out() -> None:
    poor = provider("poor", lacks=frozenset({"temperature", "seed"}))
    picky = deployment("A", provider("picky"), capabilities=Capabilities(sampling=False))
    thinks = deployment("A", provider("thinks"), capabilities=Capabilities(thinking_off=False))
    of = catalogue(model("A", deployment("A", poor), picky, thinks, deployment("A", P2)))
    found = told(of, key(), temperature=0, reasoning_effort="none", seed=1)
    assert found.chain is not None
    assert [(left.deployment, left.rule) for left in found.chain.left_out] == [
        ("A/poor", "providers.poor.lacks has 'temperature'"),
        ("A/picky", "its capabilities.sampling is false"),
        ("A/thinks", "its capabilities.thinking is always"),
    ]
    assert [target.deployment for target in found.targets] == ["A/p2"]


def test_who_may_keep_nothing_is_left_out_of_what_was_kept() -> None:
    serving = frozenset({Endpoint.RESPONSES})
    forgets = provider("forgets", nature=NATURES["openai"].without_store(), endpoints=serving)
    models = model("A", deployment("A", forgets), deployment("A", provider("keeps", endpoints=serving)))
    raw = msgspec.json.encode({"model": "A", "input": "hi", "previous_response_id": "resp_1"})
    asked = Asked(endpoint=endpoint_of(raw), body=raw, project=None, now_unix_s=0)
    found = explain(catalogue(models), key(), asked, left_by)
    assert found.chain is not None
    assert [(left.deployment, left.rule) for left in found.chain.left_out] == [
        ("A/forgets", "providers.forgets.allow_store is false, so that it keeps nothing for 'previous_response_id'")
    ]
    assert [target.deployment for target in found.targets] == ["A/keeps"]


def test_an_answer_that_a_dialect_wants_bounded_is_told_so() -> None:
    poor = provider("poor", nature=NATURES["anthropic"])
    found = told(catalogue(model("A", deployment("A", poor), max_output_tokens=77)), key())
    assert found.targets[0].adjusted_params == ("max_tokens=77",)


def test_several_credentials_are_one_target_with_its_whole_share() -> None:
    several = catalogue(model("A", deployment("A", provider("p1", credentials=3)), deployment("A", P2)))
    first, second = told(several, key()).targets
    assert (first.credentials, second.credentials) == (("p1", "p1#2", "p1#3"), ("p2",))
    assert (first.first_choice_share, second.first_choice_share) == (0.5, 0.5)
