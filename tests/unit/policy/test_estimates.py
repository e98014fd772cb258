import pytest

from gateway.policy.admission import Estimate
from gateway.policy.estimates import FEWEST_TOKENS, LONGEST_HOLD_TOKENS, estimate
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
