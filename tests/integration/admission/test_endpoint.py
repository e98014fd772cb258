"""How the URL of a store is read."""

import pytest

from gateway.admission.endpoint import parse_endpoint


def test_a_tcp_url() -> None:
    endpoint = parse_endpoint("redis://tiergate:s%2Fecret@store.example:7000/4")
    assert (endpoint.host, endpoint.port, endpoint.database, endpoint.username) == ("store.example", 7000, 4, "tiergate")
    assert endpoint.password.reveal() == "s/ecret"
    assert endpoint.tls is None


def test_the_shortest_url() -> None:
    endpoint = parse_endpoint("redis://")
    assert (endpoint.host, endpoint.port, endpoint.database, bool(endpoint.password)) == ("localhost", 6379, 0, False)


def test_a_unix_url() -> None:
    endpoint = parse_endpoint("unix:///run/store%20a.sock?db=2")
    assert (endpoint.path, endpoint.database) == ("/run/store a.sock", 2)


def test_a_tls_url_checks_certificates_and_names() -> None:
    endpoint = parse_endpoint("rediss://store.example")
    assert endpoint.tls is not None
    assert endpoint.tls.check_hostname


@pytest.mark.parametrize(
    "url", ["http://:hunter22@store", "redis+sentinel://:hunter22@store/main", "unix://:hunter22@", "redis://:hunter22@store/x"]
)
def test_another_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"scheme|socket|number") as refusal:
        parse_endpoint(url)
    assert "hunter22" not in str(refusal.value)


def test_a_password_does_not_show() -> None:
    assert "hunter22" not in repr(parse_endpoint("redis://:hunter22@store"))
