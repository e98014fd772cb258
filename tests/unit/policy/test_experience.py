import msgspec
import pytest

from gateway.policy.admission import Lesson
from gateway.policy.answers import Learned
from gateway.policy.experience import REMEMBERED, Experience, asked, lesson
from gateway.wire.request import Endpoint, parse
from gateway.wire.usage import Usage
from tests.catalogues import request


def taught(usage: Usage, **fields: int) -> tuple[int, int] | None:
    """Return what an answer to 300 bytes of text and 4 tokens of frame teaches."""
    found = lesson(asked(request("m", **{"text_bytes": 300, "prompt_tokens": 104, **fields}), "acme", "served"), usage)
    assert found is None or (found.org, found.model) == ("acme", "served")
    return None if found is None else (found.ratio_ppm, found.output_tokens)


@pytest.mark.parametrize(
    ("usage", "fields", "ratio_ppm", "output_tokens"),
    [
        pytest.param(Usage(input=79, output=20), {}, 250_000, 20, id="both"),
        pytest.param(Usage(input=79, output=20), {"n": 3}, 250_000, 7, id="the length of one choice"),
        pytest.param(Usage(input=79, output=20), {"n": 3, "prompts": 2}, 250_000, 4, id="of each prompt"),
        pytest.param(Usage(input=79, output=20), {"max_tokens": 20}, 250_000, 0, id="no length where the client bounds it"),
        pytest.param(Usage(input=79, output=20), {"files": 1}, 0, 20, id="no ratio where files are guessed at"),
        pytest.param(Usage(input=79, output=20), {"text_bytes": 0}, 0, 20, id="nor where there is no text"),
        pytest.param(Usage(output=20), {}, 0, 20, id="nor where none was told"),
        pytest.param(Usage(input=3), {}, 150_000, 0, id="a ratio that is too low to be one of text"),
        pytest.param(Usage(input=9_000), {}, 1_000_000, 0, id="or too high"),
    ],
)
def test_usage_teaches(usage: Usage, fields: dict[str, int], ratio_ppm: int, output_tokens: int) -> None:
    assert taught(usage, **fields) == (ratio_ppm, output_tokens)


def test_no_usage_teaches_nothing() -> None:
    assert taught(Usage()) is None
    assert taught(Usage(output=5), max_tokens=5) is None


def test_a_chat_is_compared_by_the_bytes_of_its_messages() -> None:
    messages = [{"role": "user", "content": "x" * 300}]
    found = asked(parse(Endpoint.CHAT, msgspec.json.encode({"model": "m", "messages": messages})), "acme", "m")
    assert (found.text_bytes, found.other_tokens) == (len(msgspec.json.encode(messages)), 4)


@pytest.mark.parametrize(
    ("fields", "teaches"),
    [
        ({}, True),
        ({"tools": [{"type": "function", "name": "f"}]}, True),
        ({"tools": [{"type": "web_search"}]}, False),
        ({"previous_response_id": "resp_1"}, False),
        ({"conversation": "conv_1"}, False),
    ],
)
def test_what_a_response_only_names_teaches_no_ratio(fields: dict[str, object], teaches: bool) -> None:
    body = msgspec.json.encode({"model": "m", "input": "x" * 300, **fields})
    assert (asked(parse(Endpoint.RESPONSES, body), "acme", "m").text_bytes > 0) is teaches


def test_a_worker_remembers_an_orgs_own_answers_and_any_orgs_ratio() -> None:
    experience = Experience()
    assert experience.of("acme", "m") == Learned()
    experience.note(Lesson("acme", "m"), Learned(300_000, 500, 30))
    experience.note(Lesson("other", "m"), Learned(310_000, 4_000, 40))
    assert experience.of("acme", "m") == Learned(310_000, 500, 30)
    assert experience.of("third", "m") == Learned(310_000)
    assert experience.of("acme", "n") == Learned()


def test_who_was_served_longest_ago_is_forgotten_first() -> None:
    experience = Experience()
    for org in ("first", "second", "first", *map(str, range(REMEMBERED - 1))):
        experience.note(Lesson(org, "m"), Learned(samples=1))
    assert [experience.of(org, "m").samples for org in ("first", "second", "0")] == [1, 0, 1]
