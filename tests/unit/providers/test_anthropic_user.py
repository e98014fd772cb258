import msgspec
import pytest

from gateway.providers.anthropic_user import LONGEST_USER_ID, user_id
from gateway.wire.request import Endpoint, parse


def told(user: object) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "user": user}
    return user_id(parse(Endpoint.CHAT, msgspec.json.encode(body)))


@pytest.mark.parametrize(
    "user", ["u-1", "42", "123456", "1234567890123456", "0b7a1c52-63b4-4d0f-9d6e-6f3a7b1c9d10", "user 5550100x", "@jo", "é"]
)
def test_a_made_up_name_is_told(user: str) -> None:
    assert told(user) == user


@pytest.mark.parametrize(
    "user",
    ["jo@example.org", "Jo <jo@example.org>", "+49 30 1234567", "(555) 010-0199", "555.010.0199", "5550100", " 030/123 45 67 "],
)
def test_an_address_is_not(user: str) -> None:
    assert told(user) == ""


@pytest.mark.parametrize("user", ["", None, "u" * (LONGEST_USER_ID + 1)])
def test_what_messages_would_refuse_is_not(user: object) -> None:
    assert told(user) == ""


def test_the_longest_is() -> None:
    assert told("u" * LONGEST_USER_ID) == "u" * LONGEST_USER_ID
