import pytest

from gateway.errors import InvalidValue, Unauthenticated
from gateway.policy.credentials import digest
from gateway.web.admin import understood
from gateway.web.admin_keys import merged
from gateway.web.gate import Bearers, Caller, Role, Token, is_loopback

PEPPER = b"pepper-of-this-test"


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("", False),
        ("localhost.evil", False),
    ],
)
def test_what_is_this_machine(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_only_a_token_opens_and_says_whose_it_is() -> None:
    names = {"opensesame": ("ali", Role.ADMIN), "opensesame-to-look": ("cassim", Role.VIEWER)}
    bearers = Bearers([Token(name, role, digest(PEPPER, secret)) for secret, (name, role) in names.items()], PEPPER)
    for secret, (name, role) in names.items():
        for sent in (f"Bearer {secret}", f"bearer  {secret}"):
            assert bearers.caller(sent) == Caller(name, role)
    for sent in ("", "Bearer", "Bearer opensesam", "Basic opensesame", "opensesame", "Bearer \xff"):
        with pytest.raises(Unauthenticated) as caught:
            bearers.caller(sent)
        assert "opensesame" not in caught.value.message
    assert "digest" not in repr(Token("ali", Role.ADMIN, b"x"))
    assert not Bearers([], PEPPER)


def test_a_parameter_that_says_nothing_is_named() -> None:
    assert understood("n", int, "7") == 7
    with pytest.raises(InvalidValue) as caught:
        understood("n", int, "x")
    assert caught.value.param == "n"


@pytest.mark.parametrize(
    ("base", "change", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_is_that_of_rfc_7396(base: dict[str, object], change: dict[str, object], result: dict[str, object]) -> None:
    assert merged(base, change) == result
