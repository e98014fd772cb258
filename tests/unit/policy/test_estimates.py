import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.answers import Learned
from gateway.policy.charges import Estimate
from gateway.policy.estimates import FEWEST_SAMPLES, FEWEST_TOKENS, LONGEST_HOLD_TOKENS, estimate, most_spent
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.wire.request import Endpoint, parse
from tests.catalogues import model, request


@pytest.mark.parametrize(
    ("fields", "cap", "bucket", "output"),
    [
        pytest.param({"max_tokens": 100}, None, 1000, 100, id="what was asked for"),
        pytest.param({"max_tokens": 10_000_000}, None, 1000, LONGEST_HOLD_TOKENS, id="bounded"),
        pytest.param({"max_tokens": 5000}, 4096, None, 4096, id="the model cannot give more"),
        pytest.param({"max_tokens": 100, "n": 3}, None, None, 300, id="for each choice"),
        pytest.param({"max_tokens": 100, "prompts": 2}, None, None, 200, id="for each prompt"),
        pytest.param({}, None, 40_000, 5000, id="an eighth of the bucket"),
        pytest.param({}, None, 800, FEWEST_TOKENS, id="but not too little"),
        pytest.param({}, 200, 800, 200, id="nor more than the model gives"),
        pytest.param({"n": 32, "prompts": 4}, None, 40_000, 5000, id="an eighth for all choices together"),
        pytest.param({"n": 3}, 100, 800, FEWEST_TOKENS, id="all choices together, but not too little"),
        pytest.param({"n": 2}, 100, 8_000, 200, id="nor more than the model gives for them"),
        pytest.param({"n": 2}, None, None, 2 * LONGEST_HOLD_TOKENS, id="without a bucket, for each choice"),
        pytest.param({}, None, None, LONGEST_HOLD_TOKENS, id="without a bucket"),
    ],
)
def test_the_hold_is_bounded(fields: dict[str, int], cap: int | None, bucket: int | None, output: int) -> None:
    found = estimate(request("m", prompt_tokens=7, **fields), model("m", max_output_tokens=cap), bucket)
    assert found == Estimate(1, 7, output, 7 + output)


@pytest.mark.parametrize(
    ("fields", "bounds", "output"),
    [
        pytest.param({"max_tokens": 10_000_000}, {}, 10_000_000, id="what was asked for, however much"),
        pytest.param({"max_tokens": 5000}, {"max_output_tokens": 4096}, 4096, id="which the model cannot give"),
        pytest.param({"max_tokens": 5000}, {"context_window": 1000}, 5000, id="and the window is the provider's to judge"),
        pytest.param({}, {"max_output_tokens": 100_000}, 100_000, id="the most that the model gives"),
        pytest.param({}, {"max_output_tokens": 100_000, "context_window": 1007}, 1000, id="and the window leaves"),
        pytest.param({}, {"context_window": 5}, 1, id="which is never nothing"),
        pytest.param({}, {}, LONGEST_HOLD_TOKENS, id="where nothing is known"),
        pytest.param({"max_tokens": 100, "n": 3, "prompts": 2}, {}, 600, id="for each choice of each prompt"),
        pytest.param({"max_tokens": 100, "best_of": 5, "prompts": 2}, {}, 1000, id="that is made, given or not"),
    ],
)
def test_the_most_that_a_request_may_cost(fields: dict[str, int], bounds: dict[str, int], output: int) -> None:
    asked, tariff = request("m", prompt_tokens=7, **fields), Tariff(Price(input=1_000_000, output=3))
    assert most_spent(asked, model("m", **bounds), tariff) == (7_000_000 + 3 * output, 7 + output)


@given(
    st.builds(Learned, st.integers(150_000, 1_000_000), st.integers(1, 8_679), st.integers(0, 255)),
    st.none() | st.integers(1, 50_000),
    st.none() | st.integers(1, 10**6),
    st.integers(1, 8),
)
def test_what_was_learned_keeps_between_the_least_and_the_share(
    learned: Learned, cap: int | None, bucket: int | None, choices: int
) -> None:
    asked, of = request("m", n=choices), model("m", max_output_tokens=cap)
    most = estimate(asked, of, bucket).output
    found = estimate(asked, of, bucket, learned).output
    assert min(FEWEST_TOKENS, most) <= found <= most
    if learned.samples < FEWEST_SAMPLES:
        assert found == most
    elif FEWEST_TOKENS < found < most:
        assert 0 <= 5 * found - 6 * learned.p95_tokens * choices < 5 * choices


@pytest.mark.parametrize(
    ("learned", "fields", "output"),
    [
        pytest.param(Learned(p95_tokens=1000, samples=19), {}, 5000, id="too few samples"),
        pytest.param(Learned(p95_tokens=1000, samples=20), {}, 1200, id="a fifth more than nearly all"),
        pytest.param(Learned(p95_tokens=1001, samples=20), {"n": 3}, 3606, id="for each choice"),
        pytest.param(Learned(p95_tokens=128, samples=20), {}, FEWEST_TOKENS, id="but not too little"),
        pytest.param(Learned(p95_tokens=8000, samples=20), {}, 5000, id="nor more than the share"),
        pytest.param(Learned(p95_tokens=1000, samples=20), {"max_tokens": 3000}, 3000, id="what the client says counts more"),
    ],
)
def test_answers_that_were_given_tell_how_long_the_next_is(learned: Learned, fields: dict[str, int], output: int) -> None:
    assert estimate(request("m", **fields), model("m"), 40_000, learned).output == output


def test_a_prompts_text_is_estimated_by_its_models_ratio_alone() -> None:
    asked = request("m", prompt_tokens=108, text_bytes=300)
    assert [estimate(asked, model("m"), None, Learned(ppm)).input for ppm in (150_000, 333_333, 1_000_000)] == [53, 108, 308]
    tokens = request("m", prompt_tokens=108)
    assert estimate(tokens, model("m"), None, Learned(1_000_000)).input == 108


@pytest.mark.parametrize("fields", [{}, {"prompts": 40}, {"n": 1}])
def test_what_generates_nothing_costs_its_input_alone(fields: dict[str, int]) -> None:
    asked = request("m", endpoint=Endpoint.EMBEDDINGS, prompt_tokens=7, **fields)
    known = Learned(p95_tokens=900, samples=FEWEST_SAMPLES)
    assert estimate(asked, model("m", max_output_tokens=100), 800, known) == Estimate(1, 7, 0, 7)
    assert most_spent(asked, model("m"), Tariff(Price(input=10, output=1_000))) == (70, 7)


@pytest.mark.parametrize(
    ("told", "nano_usd"),
    [({}, 5), ({"cache_control": {"type": "ephemeral"}}, 5), ({"cache_control": {"type": "ephemeral", "ttl": "1h"}}, 8)],
)
def test_what_is_cached_for_an_hour_is_held_for_where_it_is_asked_for(told: dict[str, object], nano_usd: int) -> None:
    said = {"role": "user", "content": [{"type": "text", "text": "x", **told}]}
    asked = parse(Endpoint.CHAT, msgspec.json.encode({"model": "m", "messages": [said], "max_tokens": 1}))
    most, _ = most_spent(asked, model("m"), Tariff(Price(input=4, output=0, cache_write=5, cache_write_1h=8)))
    assert most == nano_usd * asked.prompt_tokens
