import pytest

from gateway.errors import InvalidRequest
from gateway.wire.head import check_message

HOST = (b"host", b"gateway.test")


@pytest.mark.parametrize(
    "host", [b"a", b"a.test:8080", b"a:", b"127.0.0.1", b"[::1]", b"[2001:db8::1]:80", b"my_gateway", b"xn--a", b"a%20b"]
)
def test_hosts(host: bytes) -> None:
    check_message(b"GET", "1.1", b"/", [(b"host", host)])


@pytest.mark.parametrize(
    "host", [b"", b":80", b"a b", b"a,b", b"a@b", b"a/b", b"a:b", b"[::1", b"::1", b"[::1]x", b"a\n", b"\xff"]
)
def test_no_hosts(host: bytes) -> None:
    with pytest.raises(InvalidRequest):
        check_message(b"GET", "1.1", b"/", [(b"host", host)])


def test_only_http_1_1_must_name_a_host() -> None:
    check_message(b"GET", "1.0", b"/", [])
    with pytest.raises(InvalidRequest):
        check_message(b"GET", "1.1", b"/", [])


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0", "", "1.10"])
def test_no_other_version_is_spoken(version: str) -> None:
    with pytest.raises(InvalidRequest):
        check_message(b"GET", version, b"/", [HOST])


@pytest.mark.parametrize("target", [b"/", b"/a?b", b"//a", b"http://a", b"http://a/", b"https://a:1/b?c", b"HTTP://A?b"])
def test_targets(target: bytes) -> None:
    check_message(b"POST", "1.1", target, [HOST])


@pytest.mark.parametrize(
    "target", [b"", b"a", b"*", b"/a#b", b"http://", b"http:///a", b"http://u@a/", b"ftp://a/", b"a:443", b"http:a"]
)
def test_no_targets(target: bytes) -> None:
    with pytest.raises(InvalidRequest):
        check_message(b"POST", "1.1", target, [HOST])


def test_a_star_is_for_options_alone() -> None:
    check_message(b"OPTIONS", "1.1", b"*", [HOST])


@pytest.mark.parametrize("name", [b"host", b"content-type", b"content-encoding"])
def test_what_says_one_thing_is_said_once(name: bytes) -> None:
    with pytest.raises(InvalidRequest):
        check_message(b"POST", "1.1", b"/", [HOST, (name, b"a"), (name, b"a")])


def test_other_fields_may_come_again() -> None:
    check_message(b"POST", "1.1", b"/", [HOST, (b"via", b"a"), (b"via", b"b")])


def test_an_underscore_is_no_hyphen() -> None:
    with pytest.raises(InvalidRequest):
        check_message(b"POST", "1.1", b"/", [HOST, (b"content_length", b"1")])


def test_a_body_in_chunks() -> None:
    check_message(b"POST", "1.1", b"/", [HOST, (b"transfer-encoding", b" Chunked ")])


@pytest.mark.parametrize(
    "codings", [[b"gzip, chunked"], [b"chunked", b"chunked"], [b"identity"], [b""], [b"identity", b"chunked"]]
)
def test_no_other_coding_of_a_transfer(codings: list[bytes]) -> None:
    with pytest.raises(InvalidRequest):
        check_message(b"POST", "1.1", b"/", [HOST, *((b"transfer-encoding", coding) for coding in codings)])


def test_no_chunks_before_http_1_1() -> None:
    with pytest.raises(InvalidRequest):
        check_message(b"POST", "1.0", b"/", [(b"transfer-encoding", b"chunked")])
