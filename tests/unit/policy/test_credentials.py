import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.policy.credentials import carrier, digest, format_digest, is_secret, parse_digest

KEY = b"key-from-elsewhere-1"
OTHER = b"key-from-elsewhere-2"


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"bearer " + KEY)],
        [(b"authorization", b"BEARER   " + KEY + b" ")],
        [(b"x-api-key", KEY)],
        [(b"xi-api-key", KEY)],
        [(b"api-key", b" " + KEY)],
        [(b"authorization", b"Bearer " + KEY), (b"x-api-key", KEY), (b"xi-api-key", KEY)],
        [(b"x-api-key", KEY), (b"x-api-key", KEY)],
        [(b"authorization", b""), (b"x-api-key", KEY)],
        [(b"authorization", b"Basic dTpw"), (b"x-api-key", KEY)],
        [(b"host", b"a"), (b"cookie", b"api-key=x"), (b"authorization", b"Bearer " + KEY)],
    ],
)
def test_ak_03_every_carrier_gives_the_key(headers: list[tuple[bytes, bytes]]) -> None:
    assert carrier(headers) == KEY.decode()


@pytest.mark.parametrize("value", [b"", b"Bearer", b"Bearer \t", b"Basic dTpw", KEY, b"Bearerkey-without-a-blank"])
def test_an_authorization_that_is_no_bearer_carries_nothing(value: bytes) -> None:
    assert carrier([(b"authorization", value)]) is None


def test_no_carrier_no_key() -> None:
    assert carrier([(b"content-type", b"application/json"), (b"x-api-key", b"")]) is None


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer " + KEY), (b"x-api-key", OTHER)],
        [(b"x-api-key", KEY), (b"xi-api-key", OTHER)],
        [(b"x-api-key", KEY), (b"x-api-key", KEY.upper())],
        [(b"authorization", b"Bearer " + KEY), (b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"Bearer " + KEY), (b"authorization", b"")],
    ],
)
def test_doubled_credentials_are_refused_without_showing_them(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        carrier(headers)
    assert KEY.decode() not in refusal.value.message


@given(st.binary(min_size=1))
def test_any_bytes_in_a_header_are_read_without_a_crash(value: bytes) -> None:
    key = carrier([(b"authorization", b"Bearer " + value)])
    assert key is None or len(digest(b"pepper", key)) == 32


def test_a_digest_follows_rfc_4231() -> None:
    assert digest(b"Jefe", "what do ya want for nothing?").hex().startswith("5bdcc146bf60754e6a042426089575c7")


@given(st.binary(min_size=32, max_size=32))
def test_a_digest_survives_its_text(value: bytes) -> None:
    assert parse_digest(format_digest(value)) == value


@pytest.mark.parametrize(
    "text", ["", "00" * 32, "hmac-sha256:", "hmac-sha256:zz", "hmac-sha256:" + "0" * 63, "hmac-sha512:" + "0" * 64]
)
def test_what_is_no_digest_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a digest is"):
        parse_digest(text)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("x" * 16, True),
        ("x" * 15, False),
        ("correct horse battery", True),
        (" " + "x" * 16, False),
        ("x" * 16 + "\n", False),
        ("é" * 16, False),
    ],
)
def test_a_secret_is_long_and_printable(text: str, good: bool) -> None:
    assert is_secret(text) is good
