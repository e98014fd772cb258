import pytest

from gateway.policy.forwarding import Proxies

PROXIES = Proxies(["10.0.0.0/8", "127.0.0.1", "fd00::/8"])


def of(peer: str | None, *chains: str) -> str | None:
    fields = [(b"host", b"x"), *((b"x-forwarded-for", chain.encode()) for chain in chains)]
    return PROXIES.client(peer, fields)


@pytest.mark.parametrize(
    ("peer", "chains", "client"),
    [
        ("203.0.113.7", (), "203.0.113.7"),
        ("203.0.113.7", ("192.0.2.1",), "203.0.113.7"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("",), "10.0.0.1"),
        ("10.0.0.1", ("192.0.2.1",), "192.0.2.1"),
        ("::ffff:10.0.0.1", ("192.0.2.1",), "192.0.2.1"),
        ("10.0.0.1", ("::ffff:192.0.2.1",), "192.0.2.1"),
        ("10.0.0.1", ("198.51.100.9, 192.0.2.1",), "192.0.2.1"),
        ("10.0.0.1", ("198.51.100.9", "192.0.2.1"), "192.0.2.1"),
        ("10.0.0.1", ("198.51.100.9, 192.0.2.1, 10.1.1.1",), "192.0.2.1"),
        ("10.0.0.1", ("198.51.100.9,192.0.2.1,10.1.1.1,127.0.0.1",), "192.0.2.1"),
        ("10.0.0.1", ("10.3.0.1, 10.1.1.1",), "10.3.0.1"),
        ("10.0.0.1", ("192.0.2.1:4711",), "192.0.2.1"),
        ("fd00::1", ("[2001:db8::1]:4711",), "2001:db8::1"),
        ("fd00::1", ("2001:db8::1",), "2001:db8::1"),
        ("10.0.0.1", ("192.0.2.1, unknown",), None),
        ("10.0.0.1", ("unknown, 192.0.2.1",), "192.0.2.1"),
        ("10.0.0.1", ("192.0.2.1,,",), None),
        ("10.0.0.1", ("192.0.2.999",), None),
        (None, ("192.0.2.1",), None),
        ("somewhere", ("192.0.2.1",), "somewhere"),
    ],
)
def test_the_client_is_the_last_that_no_trusted_proxy_is(peer: str | None, chains: tuple[str, ...], client: str | None) -> None:
    assert of(peer, *chains) == client


def test_without_proxies_nobody_is_believed() -> None:
    assert Proxies([]).client("10.0.0.1", [(b"x-forwarded-for", b"192.0.2.1")]) == "10.0.0.1"
