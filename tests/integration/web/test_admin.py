import pytest

from gateway.errors import InvalidValue, Unauthenticated
from gateway.policy.catalogue import Secret
from gateway.web.admin import check_bearer, is_loopback, understood


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


def test_only_the_token_opens() -> None:
    token = Secret("opensesame")
    check_bearer("Bearer opensesame", token)
    check_bearer("bearer  opensesame", token)
    for sent in ("", "Bearer", "Bearer opensesam", "Basic opensesame", "opensesame", "Bearer \xff"):
        with pytest.raises(Unauthenticated) as caught:
            check_bearer(sent, token)
        assert "opensesame" not in caught.value.message


def test_a_parameter_that_says_nothing_is_named() -> None:
    assert understood("n", int, "7") == 7
    with pytest.raises(InvalidValue) as caught:
        understood("n", int, "x")
    assert caught.value.param == "n"
