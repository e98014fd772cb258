"""Base URLs, and the addresses that are never an upstream."""

import pytest

from gateway.upstream.origin import Origin, is_forbidden, parse_origin, tls_context


@pytest.mark.parametrize(
    ("base_url", "host", "port", "tls", "prefix", "authority"),
    [
        ("https://api.example.com", "api.example.com", 443, True, "", "api.example.com"),
        ("https://api.example.com:443/v1/openai", "api.example.com", 443, True, "/v1/openai", "api.example.com"),
        ("http://API.example.com:8000/v1/", "api.example.com", 8000, False, "/v1", "api.example.com:8000"),
        ("http://127.0.0.1", "127.0.0.1", 80, False, "", "127.0.0.1"),
        ("http://[::1]:8000/v1", "::1", 8000, False, "/v1", "[::1]:8000"),
        ("https://bücher.example", "xn--bcher-kva.example", 443, True, "", "xn--bcher-kva.example"),
    ],
)
def test_parses_a_base_url(base_url: str, host: str, port: int, tls: bool, prefix: str, authority: str) -> None:
    origin = parse_origin(base_url)
    assert origin == Origin(host=host, port=port, tls=tls, prefix=prefix)
    assert origin.authority == authority
    assert origin.url == f"{'https' if tls else 'http'}://{authority}{prefix}"


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "api.example.com",
        "ftp://a",
        "https://",
        "https://user:pw@a",
        "https://a?x=1",
        "https://a#x",
        "https://a:port",
        "https://a:99999",
    ],
)
def test_refuses_what_is_no_base_url(base_url: str) -> None:
    with pytest.raises(ValueError, match=r"base URL|[Pp]ort"):
        parse_origin(base_url)


@pytest.mark.parametrize(
    ("address", "forbidden"),
    [
        ("169.254.169.254", True),
        ("169.254.0.1", True),
        ("fe80::1", True),
        ("fe80::1%eth0", True),
        ("fd00:ec2::254", True),
        ("::ffff:169.254.169.254", True),
        ("100.100.100.200", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("10.0.0.1", False),
        ("192.168.1.1", False),
        ("fd00:ec2::253", False),
        ("8.8.8.8", False),
    ],
)
def test_forbids_link_local_and_metadata_addresses(address: str, forbidden: bool) -> None:
    assert is_forbidden(address) is forbidden


def test_a_tls_context_verifies() -> None:
    context = tls_context(None)
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"
