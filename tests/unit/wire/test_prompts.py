import msgspec
import pytest

from gateway.errors import Unprocessable
from gateway.wire.prompts import text_tokens
from tests.unit.wire.bodies import chat, legacy, locs


@pytest.mark.parametrize(
    ("prompt", "prompts", "tokens", "of_tokens"),
    [
        ("abc", 1, 2, False),
        ("", 1, 1, False),
        (["a", "b"], 2, 3, False),
        ([1, 2, 3], 1, 3, True),
        ([0], 1, 1, True),
        ([[1, 2], [3]], 2, 3, True),
        ([], 1, 1, False),
    ],
)
def test_prompts_are_classified(prompt: object, prompts: int, tokens: int, of_tokens: bool) -> None:
    request = legacy(prompt=prompt)
    assert (request.prompts, request.prompt_tokens, request.token_prompt) == (prompts, tokens, of_tokens)


@pytest.mark.parametrize(
    "prompt", [5, True, {"text": "a"}, ["a", 1], [True], [-1], [1.5], [1.0], [[1], "a"], [[1, -2]], ["a", None], [[["a"]]]]
)
def test_other_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(Unprocessable) as refused:
        legacy(prompt=prompt)
    assert locs(refused.value) == [("body", "prompt")]
    assert refused.value.error_code == "invalid_type"


@pytest.mark.parametrize("name", ["tools", "functions"])
def test_what_the_model_may_call_is_part_of_its_prompt(name: str) -> None:
    offered = [{"type": "function", "function": {"name": "f", "description": "x" * 300}}]
    plain, found = chat(), chat(**{name: offered})
    assert found.text_bytes - plain.text_bytes == len(msgspec.json.encode(offered))
    assert found.prompt_tokens - plain.prompt_tokens == text_tokens(found.text_bytes) - text_tokens(plain.text_bytes)
    assert chat(**{name: None}).text_bytes == plain.text_bytes


def test_messages_are_estimated_by_their_bytes_and_files_at_a_flat_rate() -> None:
    text = msgspec.json.encode([{"role": "user", "content": "x" * 300}])
    assert chat(messages=[{"role": "user", "content": "x" * 300}]).prompt_tokens == -(-len(text) // 3) + 4
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}}
    assert 1_000 < chat(messages=[{"role": "user", "content": [image]}]).prompt_tokens < 1_100
