from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.errors import GatewayError, InvalidValue, ModelNotFound, UnsupportedParameter, UnsupportedPrompt
from gateway.faults import Failed, Fault
from gateway.policy.admission import Lesson
from gateway.policy.answers import Cause, Learned, Refusal
from gateway.policy.catalogue import (
    Budget,
    Catalogue,
    Guards,
    Limits,
    Model,
    Queue,
    Tier,
    TierTerms,
)
from gateway.policy.charges import Charge, Reach
from gateway.policy.ends import RATE_LIMIT, End, end_class, end_of, refusal_status
from gateway.policy.estimates import LONGEST_HOLD_TOKENS
from gateway.policy.experience import Experience
from gateway.policy.limits import budget_charges, charges
from gateway.policy.means import Capabilities
from gateway.policy.patience import NO_PATIENCE
from gateway.policy.prices import Price
from gateway.policy.routing import Plan, Planner, offer, remaining
from gateway.policy.tiers import Wish
from gateway.wire.request import Endpoint, InferenceRequest
from tests.catalogues import catalogue, deployment, key, model, provider, request

DEFAULT = Wish(Tier.DEFAULT)
P1, P2 = provider("p1"), provider("p2")
A = model("A", deployment("A", P1), deployment("A", P2, order=2), aliases=("alias-of-A",), context_window=1000)
B = model("B", deployment("B", P1), context_window=4000)
C = model("C", deployment("C", P1), context_window=500)


def plan(asked: InferenceRequest, *, of: Catalogue | None = None, wanted: Wish = DEFAULT, **rights: Any) -> Plan:
    return Planner(of or catalogue(A, B, C)).plan(key(**rights), asked, wanted, dice=1)


def order(found: Plan) -> list[tuple[str, str]]:
    return [(c.target.deployment.id, c.target.tier) for c in found.candidates]


def names(found: Plan) -> list[str]:
    return list(dict.fromkeys(c.target.model.name for c in found.candidates))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request("A"), ["A"]),
        (request("A", "B"), ["A", "B"]),
        (request("A", "A", "B"), ["A", "B"]),
        (request("A", "alias-of-A", "B"), ["A", "B"]),
        (request(models=("B",), model="A"), ["B"]),
        (request(models=("B",), model=None), ["B"]),
        (request(models=("B",), model="nope"), ["B"]),
        (request(models=("A", "A")), ["A"]),
    ],
)
def test_the_chain_is_the_clients_list_without_doubles(asked: InferenceRequest, expected: list[str]) -> None:
    assert names(plan(asked)) == expected


def test_providers_of_a_model_follow_each_other_before_the_next_model() -> None:
    assert order(plan(request("A", "B"))) == [("A/p1", "default"), ("A/p2", "default"), ("B/p1", "default")]


def test_an_answer_names_the_model_as_the_client_did() -> None:
    assert [c.shown for c in plan(request("alias-of-A", "B")).candidates] == ["alias-of-A", "alias-of-A", "B"]


def test_auto_tries_every_provider_within_the_limits_before_any_over_them() -> None:
    overflowing = plan(request("A", "B"), wanted=Wish(Tier.DEFAULT, overflow=True), over_limit=Guards())
    assert order(overflowing) == [
        ("A/p1", "default"),
        ("A/p2", "default"),
        ("A/p1", "over-limit"),
        ("A/p2", "over-limit"),
        ("B/p1", "default"),
        ("B/p1", "over-limit"),
    ]


def test_the_servers_list_follows_only_where_the_client_sent_none() -> None:
    withal = catalogue(model("A", deployment("A", P1), fallbacks=("B", "C")), B, C)
    assert names(plan(request("A"), of=withal)) == ["A", "B", "C"]
    assert names(plan(request(models=("A",)), of=withal)) == ["A"]
    assert names(plan(request("A"), of=withal, models=("A", "C"))) == ["A", "C"], "entries that the key may not use are skipped"


class TestOverChat:
    NATIVE = provider("native", endpoints=frozenset({Endpoint.COMPLETIONS}))
    OF = catalogue(model("A", deployment("A", P1), deployment("A", NATIVE, order=2)), B)

    def test_completions_go_to_whoever_has_them_and_then_to_chat(self) -> None:
        found = plan(request("A", "B", endpoint=Endpoint.COMPLETIONS), of=self.OF)
        assert order(found) == [("A/native", "default"), ("A/p1", "default"), ("B/p1", "default")]
        assert [candidate.way.detour for candidate in found.candidates] == [False, True, True]

    def test_a_tier_is_tried_both_ways_before_the_next(self) -> None:
        found = plan(
            request("A", endpoint=Endpoint.COMPLETIONS), of=self.OF, wanted=Wish(Tier.DEFAULT, overflow=True), over_limit=Guards()
        )
        assert order(found) == [
            ("A/native", "default"),
            ("A/p1", "default"),
            ("A/native", "over-limit"),
            ("A/p1", "over-limit"),
        ]

    def test_what_chat_cannot_say_keeps_to_completions_and_one_plan_does_not_shape_the_next(self) -> None:
        planner = Planner(self.OF)
        for fields, expected in (({}, 2), ({"suffix": "y"}, 1), ({}, 2)):
            asked = request("A", endpoint=Endpoint.COMPLETIONS, fields=fields)
            assert len(planner.plan(key(), asked, DEFAULT, dice=1).candidates) == expected

    def test_chat_is_never_made_of_completions(self) -> None:
        assert order(plan(request("A"), of=self.OF)) == [("A/p1", "default")]

    def test_a_key_that_may_not_use_the_chat_is_told_of_the_model(self) -> None:
        asked = request("B", endpoint=Endpoint.COMPLETIONS, fields={"suffix": "y"})
        for providers, param in ((("*",), "suffix"), (("native",), "model")):
            with pytest.raises(UnsupportedParameter) as raised:
                plan(asked, of=self.OF, providers=providers)
            assert raised.value.param == param


@pytest.mark.parametrize(
    ("other", "asked", "rights"),
    [
        (model("B", max_n=1), {"n": 2}, {}),
        (model("B", capabilities=Capabilities(tools=False)), {"fields": {"tools": [{"type": "function"}]}}, {}),
        (model("B", deployment("B", provider(endpoints=frozenset({Endpoint.COMPLETIONS})))), {}, {}),
        (model("B", deployment("B", P1)), {"endpoint": Endpoint.COMPLETIONS, "token_prompt": True}, {}),
        (model("B", deployment("B", P1)), {"endpoint": Endpoint.COMPLETIONS, "fields": {"suffix": "y"}}, {}),
        (model("B", tiers=frozenset({Tier.DEFAULT})), {}, {"reject_unsupported_tier": True}),
    ],
    ids=["choices", "capability", "endpoint", "prompt chat cannot take", "field chat cannot take", "tier"],
)
def test_the_servers_own_entry_that_cannot_serve_a_request_is_left_out_and_the_clients_is_refused(
    other: Model, asked: dict[str, Any], rights: dict[str, Any]
) -> None:
    everything = provider("p3", endpoints=frozenset(Endpoint))
    models = (model("A", deployment("A", everything), fallbacks=("B", "C")), other, model("C", deployment("C", everything)))
    flex = Wish(Tier.FLEX, named=True)
    assert names(plan(request("A", **asked), of=catalogue(*models), wanted=flex, **rights)) == ["A", "C"]
    for own in ("B",), ("A", "B"):
        with pytest.raises((InvalidValue, UnsupportedParameter, UnsupportedPrompt)):
            plan(request(models=own, **asked), of=catalogue(*models), wanted=flex, **rights)


@pytest.mark.parametrize(
    ("asked", "rights", "error"),
    [
        (request("A", "Unknown"), {}, ModelNotFound),
        (request("A ", "A"), {}, ModelNotFound),
        (request("a"), {}, ModelNotFound),
        (request("A", "B"), {"models": ("A",)}, ModelNotFound),
        (request("A", endpoint=Endpoint.EMBEDDINGS), {}, UnsupportedParameter),
        (request("A"), {"providers": ("other-*",)}, UnsupportedParameter),
    ],
)
def test_a_bad_entry_fails_before_anything_is_tried(
    asked: InferenceRequest, rights: dict[str, Any], error: type[GatewayError]
) -> None:
    with pytest.raises(error) as raised:
        plan(asked, **rights)
    assert raised.value.param == "model"


def test_unknown_and_forbidden_read_alike() -> None:
    texts = []
    for name in ("B", "Z"):
        with pytest.raises(ModelNotFound) as raised:
            plan(request("A", name), models=("A",))
        texts.append(raised.value.message.replace(f"'{name}'", "''"))
    assert texts[0] == texts[1]


def test_n_above_the_models_own_bound_is_refused_naming_the_model() -> None:
    with pytest.raises(InvalidValue, match="'A' allows n up to 1") as raised:
        plan(request("A", "B", n=2), of=catalogue(model("A", max_n=1), B))
    assert raised.value.param == "n"


def test_a_provider_that_the_key_may_not_use_is_left_out() -> None:
    assert order(plan(request("A"), providers=("p2",))) == [("A/p2", "default")]


def test_a_way_is_found_once_and_walked_by_many() -> None:
    planner = Planner(catalogue(A, B))
    first, second = (planner.plan(key(), request("A"), DEFAULT, dice=n).candidates[0].row for n in (1, 2))
    assert first.charges is second.charges


def test_the_model_asked_for_is_waited_for_before_the_servers_own_list_and_not_before_the_clients() -> None:
    waits = {Tier.DEFAULT: TierTerms(queue_s=30.0)}
    chained = model("A", deployment("A", P1, max_concurrency=2), fallbacks=("B",), queue=Queue(max_waiters=7))
    of = replace(catalogue(chained, B), tiers=waits)
    followed = plan(request("A"), of=of)
    assert (followed.own_patience.longest_s, followed.own_patience.max_waiters) == (30.0, 7)
    assert followed.patience.max_waiters == 32
    for literal in (request("A", "B"), request(models=("A",)), request("B"), request("A", fail_fast=True)):
        assert plan(literal, of=of).own_patience == NO_PATIENCE
    assert plan(request("A"), of=of, models=("A",)).own_patience == NO_PATIENCE, "the key may not use what would follow"


CAPACITY, UNAVAILABLE, CLIENT = "capacity", "unavailable", "client"


@pytest.mark.parametrize(
    ("on", "ends", "expected"),
    [
        pytest.param(("capacity", "unavailable"), [], [0, 1, 2], id="all in one offer"),
        pytest.param(("capacity",), [], [0, 1, 2], id="refusals are capacity"),
        pytest.param(("unavailable",), [], [0, 1], id="capacity does not lead on"),
        pytest.param(
            ("capacity", "unavailable"), [End(0, UNAVAILABLE, sent=True)], [1, 2], id="the other provider, then the next model"
        ),
        pytest.param(("capacity",), [End(0, UNAVAILABLE, sent=True)], [1], id="failover inside a model is always on"),
        pytest.param(
            ("capacity",), [End(0, UNAVAILABLE, sent=True), End(1, CAPACITY, sent=False)], [], id="each class must lead on"
        ),
        pytest.param(("capacity", "unavailable"), [End(0, CLIENT, sent=True)], [], id="the client's own fault ends the walk"),
        pytest.param(
            ("capacity", "unavailable"), [End(0, "context_length", sent=True)], [], id="its reason too, unless opted in"
        ),
        pytest.param(
            ("capacity", "context_length"), [End(0, "context_length", sent=True)], [2], id="then only a larger context may follow"
        ),
        pytest.param(("capacity", "unavailable"), [End(0, RATE_LIMIT, sent=False)], [1, 2], id="a rate that was walked past"),
        pytest.param(("capacity", "unavailable"), [End(n, UNAVAILABLE, sent=True) for n in range(3)], [], id="the end"),
    ],
)
def test_what_leads_on(on: tuple[str, ...], ends: list[End], expected: list[int]) -> None:
    assert list(remaining(plan(request("A", "B"), of=catalogue(A, B, on=on)), ends)) == expected


def test_context_length_never_leads_to_a_smaller_context() -> None:
    small = plan(request("A", "C"), of=catalogue(A, C, on=("context_length",)))
    assert remaining(small, [End(0, "context_length", sent=True)]) == ()


def test_attempts_are_bounded_and_refusals_are_no_attempts() -> None:
    two = plan(request("A", "B"), of=catalogue(A, B, max_attempts=2))
    assert remaining(two, [End(0, UNAVAILABLE, sent=True), End(1, CAPACITY, sent=False)]) == (2,)
    assert remaining(two, [End(0, UNAVAILABLE, sent=True), End(1, UNAVAILABLE, sent=True)]) == ()


@given(
    st.lists(st.sampled_from([CAPACITY, UNAVAILABLE]), max_size=8),
    st.sampled_from([("capacity",), ("capacity", "unavailable"), ()]),
)
def test_a_walk_never_repeats_and_always_ends(classes: list[str], on: tuple[str, ...]) -> None:
    chain = plan(request("A", "B", "C"), of=catalogue(A, B, C, on=on))
    ends: list[End] = []
    for each in classes:
        offered = remaining(chain, ends)
        assert not {end.candidate for end in ends} & set(offered)
        assert list(offered) == sorted(offered)
        if not offered:
            return
        ends.append(End(offered[0], each, sent=True))
    assert len(ends) <= len(chain.candidates) + 1


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (Failed(fault=Fault.REJECTED, code="context_length_exceeded"), "context_length"),
        (Failed(fault=Fault.REJECTED, code="content_filter"), "content_filter"),
        (Failed(fault=Fault.REJECTED, code="invalid_value"), "client"),
        (Failed(fault=Fault.BUSY), "capacity"),
        (Failed(fault=Fault.SERVER), "unavailable"),
    ],
)
def test_a_failure_has_one_class(failed: Failed, expected: str) -> None:
    assert end_class(failed) == expected


SEVERAL = provider("p1", credentials=3)


def accounts(found: Plan, places: Sequence[int]) -> list[tuple[str, str]]:
    return [found.candidates[place].account for place in places]


class TestCredentials:
    """`A` is at a provider with three credentials, then at one with one."""

    OF = catalogue(model("A", deployment("A", SEVERAL), deployment("A", P2, order=2)), B)

    def test_each_is_a_candidate_of_its_own_at_the_same_target_and_holds_the_same(self) -> None:
        found = plan(request("A"), of=self.OF)
        three, [other] = found.candidates[:3], found.candidates[3:]
        assert sorted(each.row.upstream.credential for each in three) == ["p1", "p1#2", "p1#3"]
        assert {each.row.upstream.deployment for each in three} == {"A/p1"}
        assert len({id(each.target) for each in three}) == 1
        assert three[0].row.charges == three[1].row.charges == three[2].row.charges
        assert other.account == ("A/p2", "p2")

    def test_over_the_limit_they_stand_in_the_same_order(self) -> None:
        found = plan(request("A"), of=self.OF, wanted=Wish(Tier.DEFAULT, overflow=True), over_limit=Guards())
        within, over = found.candidates[:4], found.candidates[4:]
        assert [each.account for each in within] == [each.account for each in over]

    @pytest.mark.parametrize("fault", [Fault.ACCOUNT_RATE, Fault.CREDENTIAL, Fault.BILLING])
    def test_what_one_account_is_refused_for_leads_to_the_next(self, fault: Fault) -> None:
        found = plan(request("A"), of=self.OF)
        assert remaining(found, [end_of(0, Failed(fault=fault))]) == (1, 2, 3)
        assert remaining(found, [end_of(0, Failed(fault=fault)), end_of(2, Failed(fault=fault))]) == (1, 3)

    @pytest.mark.parametrize(
        "fault", [Fault.CONNECT, Fault.SERVER, Fault.TIMEOUT, Fault.BUSY, Fault.BAD_ANSWER, Fault.STALE_MODEL]
    )
    def test_what_the_deployment_is_at_fault_for_does_not(self, fault: Fault) -> None:
        found = plan(request("A"), of=self.OF)
        assert remaining(found, [end_of(0, Failed(fault=fault, sent=fault is not Fault.CONNECT))]) == (3,)

    def test_an_account_that_ended_is_not_tried_over_the_limit_either(self) -> None:
        found = plan(request("A"), of=self.OF, wanted=Wish(Tier.DEFAULT, overflow=True), over_limit=Guards())
        left = remaining(found, [end_of(1, Failed(fault=Fault.ACCOUNT_RATE))])
        assert found.candidates[1].account not in accounts(found, left)
        assert len(left) == 6

    def test_attempts_are_bounded_over_all_credentials(self) -> None:
        two = plan(request("A"), of=catalogue(model("A", deployment("A", SEVERAL)), max_attempts=2))
        assert remaining(two, [end_of(place, Failed(fault=Fault.ACCOUNT_RATE)) for place in (0, 1)]) == ()

    def test_that_nothing_comes_after_it_is_told_the_last_credential_of_the_last_deployment(self) -> None:
        found = plan(request("A"), of=catalogue(model("A", deployment("A", SEVERAL))))
        assert [row.last for row in offer(found, (0, 1, 2))] == [False, False, True]
        assert [row.last for row in offer(found, (0,))] == [True]
        over = plan(request("A"), of=self.OF, wanted=Wish(Tier.DEFAULT, overflow=True), over_limit=Guards())
        assert [row.last for row in offer(over, range(8))] == [False, False, False, True] * 2
        assert [row.last for row in offer(over, (0, 1, 4, 5))] == [False, True] * 2


@given(
    st.lists(st.sampled_from([*Fault]), max_size=12),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(0, 2**62 - 1),
)
def test_no_walk_repeats_an_account_or_comes_back_to_a_deployment_that_was_at_fault(
    faults: list[Fault], counts: list[int], dice: int
) -> None:
    at = [deployment("A", provider(f"p{n}", credentials=count)) for n, count in enumerate(counts)]
    chain = Planner(catalogue(model("A", *at), max_attempts=99)).plan(key(), request("A"), DEFAULT, dice=dice)
    ends: list[End] = []
    tried: list[tuple[str, str]] = []
    for fault in faults:
        offered = remaining(chain, ends)
        if not offered:
            break
        account = chain.candidates[offered[0]].account
        assert account not in tried
        at_fault = {chain.candidates[end.candidate].account[0] for end in ends if not end.alone}
        assert account[0] not in at_fault
        tried.append(account)
        ends.append(end_of(offered[0], Failed(fault=fault)))
    else:
        return
    if Fault.REJECTED not in faults[: len(ends)]:
        left = {each.account for each in chain.candidates} - set(tried)
        assert all(any(name == chain.candidates[end.candidate].account[0] and not end.alone for end in ends) for name, _ in left)


def priced(name: str, output: int) -> Model:
    return model(name, deployment(name, P1), price=Price(input=1, output=output))


def test_each_candidate_is_held_to_what_the_dearest_may_cost() -> None:
    of = catalogue(priced("A", 2), priced("B", 5))
    asked = request("A", "B", max_tokens=100)
    held = plan(asked, of=of, budget=Budget(nano_usd=1))
    assert [c.row.estimate.cost_nano_usd for c in held.candidates] == [510, 510]
    assert [c.row.estimate.cost_nano_usd for c in plan(asked, of=of).candidates] == [0, 0]


def test_what_was_learned_of_model_and_org_is_held_and_of_money_still_the_most() -> None:
    experience, of = Experience(), catalogue(priced("A", 2), priced("B", 2))
    asked = request("A", "B", text_bytes=30)
    experience.note(Lesson("acme", "A"), Learned(ratio_ppm=1_000_000, p95_tokens=1000, samples=20))
    held = [
        [candidate.row.estimate for candidate in Planner(of, experience).plan(caller, asked, DEFAULT, dice=1).candidates]
        for caller in (key(budget=Budget(nano_usd=1)), key(org="other"))
    ]
    assert [(each.input, each.output) for each in held[0]] == [(30, 1200), (10, LONGEST_HOLD_TOKENS)]
    assert [(each.input, each.output) for each in held[1]] == [(30, LONGEST_HOLD_TOKENS), (10, LONGEST_HOLD_TOKENS)]
    assert [each.cost_nano_usd for each in held[0]] == [10 + 2 * LONGEST_HOLD_TOKENS] * 2


def test_a_key_pays_from_the_budget_of_the_project_that_it_works_for() -> None:
    planner, budgets = Planner(catalogue(priced("A", 2))), {"search": Budget(nano_usd=1)}
    for project, scopes in (("search", ["pb:month:acme:search"]), ("chat", [])):
        found = planner.plan(key(project=project, project_budgets=budgets), request("A"), DEFAULT, dice=1)
        assert [charge.scope for charge in found.candidates[0].row.charges if charge.is_budget] == scopes


OWN = charges("k:k1", Limits(rpm=1), reach=Reach.REQUEST, tenant=True)[0]
ROOM = charges("d:a/one", Limits(concurrency=1), reach=Reach.DEPLOYMENT, tenant=False)[0]
[MONEY] = budget_charges("kb:k1", Budget(nano_usd=1))


@pytest.mark.parametrize(
    ("charge", "cause", "status"),
    [
        (OWN, Cause.LIMIT, 429),
        (ROOM, Cause.COOLING, 429),
        (ROOM, Cause.OPEN, 0),
        (ROOM, Cause.DISABLED, 0),
        (MONEY, Cause.LIMIT, 402),
    ],
)
def test_a_refused_candidate_has_the_status_of_what_refused_it(charge: Charge, cause: Cause, status: int) -> None:
    assert refusal_status(Refusal(0, charge, None, cause)) == status
