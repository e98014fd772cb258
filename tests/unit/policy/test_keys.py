import pytest

from gateway.errors import InvalidRequest, IpNotAllowed, Unauthenticated
from gateway.policy.credentials import digest
from gateway.policy.keys import check_key, enter
from tests.catalogues import key

PEPPER, SECRET = b"pepper", "sk-a-secret-of-some-length"
KEY = key()
KEYS = {digest(PEPPER, SECRET): KEY}


def test_a_known_key_enters() -> None:
    assert enter(KEYS, [(b"authorization", b"Bearer " + SECRET.encode())], PEPPER) is KEY


@pytest.mark.parametrize(
    "headers", [[], [(b"authorization", b"Basic abc")], [(b"x-api-key", b"")], [(b"x-api-key", b"sk-unknown")]]
)
def test_no_key_or_an_unknown_one_is_401(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Unauthenticated) as raised:
        enter(KEYS, headers, PEPPER)
    assert "sk-" not in raised.value.message


def test_two_keys_are_a_fault_of_the_request() -> None:
    with pytest.raises(InvalidRequest):
        enter(KEYS, [(b"x-api-key", SECRET.encode()), (b"api-key", b"another")], PEPPER)


def test_a_key_expires_at_its_moment() -> None:
    short = key(expires_at_s=100.0)
    check_key(short, None, 99.9)
    with pytest.raises(Unauthenticated):
        check_key(short, None, 100.0)


@pytest.mark.parametrize(
    ("address", "enters"), [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("192.168.0.1", False), (None, False), ("::1", True)]
)
def test_a_bound_key_enters_from_its_networks_alone(address: str | None, enters: bool) -> None:
    bound = key(ips=("10.0.0.0/8", "::1"))
    if enters:
        check_key(bound, address, 0.0)
    else:
        with pytest.raises(IpNotAllowed):
            check_key(bound, address, 0.0)
