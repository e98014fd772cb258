"""Tiers as a client meets them: the rows of the wire contract's state table (2.3), each by its number, on a gateway that runs.

Model M has two slots: with one held it is *busy* (over-limit and flex find no room), with two it is *full*. Model `plain` offers
default alone and has room for all. Every key may ask RPM times a minute; it is *over* once it has. Who waits is served once the
slots are free. A key of row 29 has a budget for one request. Rows that lose Redis are not here.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.openai import Models, answers
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

RPM, TPM = 3, 600
USAGE = {"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 100}
TOKENS = 100
COST_MICRO_USD = 160
"""Of one request at the price of default."""

OVER = ("default",) * RPM
"""What a key asks before a row, by tier, to be over its limit."""

ALL = ["priority", "default", "flex"]
OVERFLOW = {"over_limit": {"rpm": 60}}
NO_LIMIT = {"allow_no_limit": True}
BUSY, FULL = ("M",), ("M", "M")


class Row(msgspec.Struct, frozen=True):
    """One row: who asks for what, in which state, and what comes of it: the tier that served or an error's status and code."""

    id: str
    word: Any
    end: str | tuple[int, str]
    consumed: int = 0
    """Requests of RPM, and as many times `TOKENS` of TPM."""
    price: float = 1.0
    key: Mapping[str, Any] = {}
    before: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    model: str = "M"
    path: str = "/v1/chat/completions"
    fields: Mapping[str, Any] = {}
    waits: bool = False

    @property
    def secret(self) -> str:
        return f"sk-test-secret-of-{self.id}"


OVERLOADED, FLEX, LIMITED = (429, "engine_overloaded"), (429, "flex_no_capacity"), (429, "rate_limit_exceeded")
REFUSED, WRONG = (400, "invalid_value"), (422, "out_of_range")
SPENT = (402, "insufficient_quota")
BUDGET = {"budget": {"usd": 0.00016}}
FAST = {"fail_fast": True}
COMPLETIONS = "/v1/completions"

ROWS = (
    Row("row_01_default_within", "default", "default", 1),
    Row("row_01_default_busy", "default", "default", 1, held=BUSY),
    Row("row_02_default_full", "default", "default", 1, held=FULL, waits=True),
    Row("row_03_default_full", "default", OVERLOADED, held=FULL, fields=FAST),
    Row("row_04_default_over", "default", LIMITED, before=OVER, key=OVERFLOW),
    Row("row_05_auto_within", "auto", "default", 1, key=OVERFLOW),
    Row("row_05_auto_full_and_patient", "auto", "default", 1, held=FULL, key=OVERFLOW, waits=True),
    Row("row_05_auto_full", "auto", OVERLOADED, held=FULL, key=OVERFLOW, fields=FAST),
    Row("row_06_auto_over_spare", "auto", "over-limit", before=OVER, key=OVERFLOW),
    Row("row_07_auto_over_busy", "auto", LIMITED, before=OVER, held=BUSY, key=OVERFLOW),
    Row("row_07_auto_over_full", "auto", LIMITED, before=OVER, held=FULL, key=OVERFLOW),
    Row("row_08_auto_over_not_allowed", "auto", LIMITED, before=OVER),
    Row("row_08_auto_over_its_own_cap", "auto", LIMITED, before=(*OVER, "auto"), key={"over_limit": {"rpm": 1}}),
    Row("row_09_auto_means_priority", "auto", "priority", 1, 1.5, key={"auto": "priority"}),
    Row("row_09_auto_means_priority_over", "auto", LIMITED, before=OVER, key={"auto": "priority", **OVERFLOW}),
    Row("row_09_auto_means_priority_unentitled", "auto", "default", 1, key={"auto": "priority", "tiers": ["default"]}),
    Row("row_10_auto_means_the_projects", "auto", "priority", 1, 1.5, key={"auto": "project", "default_project": "search"}),
    Row("row_10_auto_without_a_project", "auto", "over-limit", before=OVER, key={"auto": "project", **OVERFLOW}),
    Row("row_11_absent_on_chat", ..., "over-limit", before=OVER, key=OVERFLOW),
    Row("row_11_null_on_chat", None, "over-limit", before=OVER, key=OVERFLOW),
    Row("row_11_absent_on_completions", ..., LIMITED, before=OVER, key=OVERFLOW, path=COMPLETIONS),
    Row("row_11_absent_on_embeddings", ..., LIMITED, before=OVER, key=OVERFLOW, path="/v1/embeddings"),
    Row("row_11_absent_means_the_keys", ..., "flex", price=0.8, key={"default_tier": "flex"}),
    Row("row_12_over_limit_by_name", "over-limit", REFUSED, key=OVERFLOW),
    Row("row_13_priority_within", "priority", "priority", 1, 1.5),
    Row("row_13_priority_busy", "priority", "priority", 1, 1.5, held=BUSY),
    Row("row_14_priority_full", "priority", "priority", 1, 1.5, held=FULL, waits=True),
    Row("row_15_priority_full", "priority", OVERLOADED, held=FULL, fields=FAST),
    Row("row_16_priority_over", "priority", LIMITED, before=OVER, key=OVERFLOW),
    Row("row_17_priority_where_there_is_none", "priority", "default", 1, model="plain"),
    Row("row_17_priority_where_there_is_none_refused", "priority", REFUSED, model="plain", key={"on_unsupported_tier": "reject"}),
    Row("row_18_priority_unentitled", "priority", REFUSED, key={"tiers": ["default", "flex"]}),
    Row("row_19_flex_within", "flex", "flex", price=0.8),
    Row("row_19_flex_over", "flex", "flex", price=0.8, before=OVER),
    Row("row_20_flex_busy", "flex", "flex", price=0.8, held=BUSY, waits=True),
    Row("row_20_flex_full_and_over", "flex", "flex", price=0.8, before=OVER, held=FULL, waits=True),
    Row("row_21_flex_busy", "flex", FLEX, held=BUSY, fields=FAST),
    Row("row_21_flex_full", "flex", FLEX, held=FULL, fields=FAST),
    Row("row_22_flex_over_its_own_cap", "flex", LIMITED, before=("flex",), key={"flex": {"rpm": 1}}),
    Row("row_23_flex_where_there_is_none", "flex", "default", 1, model="plain"),
    Row("row_23_flex_where_there_is_none_over", "flex", LIMITED, model="plain", before=OVER),
    Row("row_24_no_limit_within", "no-limit", "no-limit", key=NO_LIMIT),
    Row("row_24_no_limit_over", "no-limit", "no-limit", key=NO_LIMIT, before=OVER, held=BUSY),
    Row("row_25_no_limit_full_and_patient", "no-limit", "no-limit", key=NO_LIMIT, before=OVER, held=FULL, waits=True),
    Row("row_25_no_limit_full", "no-limit", OVERLOADED, key=NO_LIMIT, held=FULL, fields=FAST),
    Row("row_26_no_limit_unentitled", "no-limit", REFUSED),
    Row("row_28_larger_than_the_bucket", "default", LIMITED, fields={"max_tokens": 5000}),
    Row("row_28_larger_than_the_bucket_over_limit", "auto", "over-limit", key=OVERFLOW, fields={"max_tokens": 5000}),
    Row("row_29_default_spent", "default", SPENT, before=("default",), key=BUDGET),
    Row("row_29_auto_spent", "auto", SPENT, before=("default",), key={**BUDGET, **OVERFLOW}),
    Row("row_29_priority_spent", "priority", SPENT, before=("default",), key=BUDGET),
    Row("row_29_priority_spent_and_full", "priority", SPENT, before=("default",), held=FULL, key=BUDGET),
    Row("row_29_flex_spent", "flex", SPENT, before=("default",), key=BUDGET),
    Row("row_29_no_limit_spent", "no-limit", SPENT, before=("default",), key={**BUDGET, **NO_LIMIT}),
    Row("row_29_default_spent_and_over", "default", SPENT, before=OVER, key={"budget": {"usd": 0.00048}}),
    Row("row_30_an_unknown_word", "turbo", WRONG),
    Row("row_30_another_case", "Default", WRONG),
    Row("row_30_an_empty_word", "", WRONG),
    Row("row_30_a_number", 7, (422, "invalid_type")),
)


def settings() -> dict[str, Any]:
    """Two models, and a key for each row."""
    deployment = {"provider": "p", "model": "up-M"}
    models = {
        "M": {"deployments": [{**deployment, "max_concurrency": 2}], "price": {"input": 1.0, "output": 2.0}},
        "plain": {"deployments": [deployment], "tiers": ["default"], "price": {"input": 1.0, "output": 2.0}},
        "native": {"deployments": [{"provider": "n", "model": "up-M"}], "price": {"input": 1.0, "output": 2.0}},
    }
    found = config({"p": "{upstream}", "n": "{upstream}"}, models, org={"projects": {"search": {"tier": "priority"}}})
    found["providers"]["p"]["endpoints"] += ["embeddings"]
    found["providers"]["n"]["tiers"] = {"default": "std", "priority": "fast", "flex": "slow"}
    limits = {"rpm": RPM, "tpm": TPM}
    rows = [{"name": row.id, "org": "acme", "secret": row.secret, "limits": limits, **row.key} for row in ROWS]
    alone = {"name": "alone", "org": "acme", "secret": ALONE, "limits": {"concurrency_per_model": 1}, **NO_LIMIT}
    return {**found, "keys": [*found["keys"], alone, *rows]}


ALONE = "sk-test-secret-of-alone"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_table(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("table")) as found:
        yield found
        assert {row["outcome"] for row in await found.run.rows()} == {"ok"}, "a refused request has no row"


@pytest_asyncio.fixture(loop_scope="module")
async def table(shared_table: Scene) -> AsyncIterator[Scene]:
    shared_table.models.acts["M"] = answers(usage=USAGE)
    yield shared_table
    await shared_table.rest()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
async def test_a_row(row: Row, table: Scene) -> None:
    for word in row.before:
        assert (await table.ask(key=row.secret, model="M", service_tier=word, max_tokens=1)).status_code == 200
        await table.run.settled()
    async with table.filled(*row.held):
        body = {"model": row.model, "service_tier": row.word, "max_tokens": 1, **row.fields}
        asking = asyncio.create_task(table.ask(key=row.secret, path=row.path, **body))
        await (table.run.waiting(1) if row.waits else asking)
    response = await asking
    assert await credits_of(table, row.secret) == (len([w for w in row.before if w == "default"]) + row.consumed,) * 2
    if isinstance(row.end, str):
        assert (response.status_code, response.json()["service_tier"]) == (200, row.end)
        assert response.headers["x-gateway-service-tier"] == row.end
        assert response.headers.get("x-ratelimit-over-limit") == ("yes" if row.end == "over-limit" else None)
        billed = {found["request_id"]: found["cost_micro_usd"] for found in await table.run.rows()}
        assert billed[response.headers["x-request-id"]] == round(COST_MICRO_USD * row.price)
        return
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == row.end
    assert "x-gateway-service-tier" not in response.headers
    if response.status_code in (400, 422):
        assert error["param"] == "service_tier"
    elif row.end == SPENT:
        assert (error["type"], response.headers["x-should-retry"]) == ("insufficient_quota", "false")
        assert "retry-after" not in response.headers
    elif row.id.startswith("row_28"):
        assert (error["type"], response.headers["x-should-retry"]) == ("tokens", "false")
        assert "too large" in error["message"]
    else:
        assert int(response.headers["retry-after"]) >= 1
    if row.end == WRONG:
        assert response.json()["detail"][0]["loc"] == ["body", "service_tier"]


async def credits_of(table: Scene, key: str) -> tuple[int, int]:
    """Return what a key has consumed: requests, and tokens in units of a request's, less what has leaked since."""
    probe = await table.ask(key=key, model="plain", service_tier="default", max_tokens=1)
    await table.run.settled()
    tokens = round((TPM - int(probe.headers["x-ratelimit-remaining-tokens"])) / TOKENS)
    if probe.status_code in (200, 402):
        return RPM - int(probe.headers["x-ratelimit-remaining-requests"]) - (probe.status_code == 200), tokens
    each_s = 60 / RPM
    return RPM - 1 + -(-int(probe.headers["retry-after"]) // int(each_s)), tokens


@pytest.mark.parametrize("word", ["default", "auto", "priority", "flex", "no-limit"])
async def test_row_27_one_at_a_time_holds_for_every_tier(word: str, table: Scene) -> None:
    async with table.filled("plain", key=ALONE):
        response = await table.ask(key=ALONE, model="plain", service_tier=word)
        elsewhere = await table.ask(key=ALONE, model="M", service_tier=word)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert response.json()["error"]["message"].startswith("Rate limited")
    assert int(response.headers["retry-after"]) >= 1
    assert elsewhere.status_code == 200
    assert (await table.ask(key=ALONE, model="plain", service_tier=word)).status_code == 200


@pytest.mark.parametrize(
    ("asked", "sent", "said", "served", "price"),
    [
        ("priority", "fast", "fast", "priority", 1.5),
        ("priority", "fast", "std", "default", 1.0),
        ("priority", "fast", "slow", "flex", 0.8),
        ("default", "std", "fast", "default", 1.0),
        ("flex", "slow", "std", "flex", 0.8),
        ("default", "std", "something", "default", 1.0),
    ],
)
async def test_what_the_provider_made_of_the_tier_counts_downward_only(
    asked: str, sent: str, said: str, served: str, price: float, table: Scene
) -> None:
    table.models.acts["M"] = answers(usage=USAGE, service_tier=said)
    response = await table.ask(model="native", service_tier=asked)
    assert msgspec.json.decode(table.server.requests[-1].body)["service_tier"] == sent
    assert (response.json()["service_tier"], response.headers["x-gateway-service-tier"]) == (served, served)
    row = (await table.run.rows())[0]
    assert (row["tier_requested"], row["tier_served"]) == (asked, served)
    assert row["cost_micro_usd"] == round(COST_MICRO_USD * price)


@pytest.mark.parametrize(
    ("word", "tier"),
    [
        ("standard", "default"),
        ("standard_only", "default"),
        ("on_demand", "default"),
        ("scale", "default"),
        ("fast", "priority"),
        ("performance", "priority"),
    ],
)
async def test_other_providers_words_are_understood(word: str, tier: str, table: Scene) -> None:
    assert (await table.ask(model="M", service_tier=word)).json()["service_tier"] == tier
