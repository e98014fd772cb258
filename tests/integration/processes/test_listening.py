import socket

import pytest

from gateway.embedded.child import Unavailable
from gateway.processes.listening import address, listen


def test_an_address_goes_into_a_url() -> None:
    with listen("api", "127.0.0.1", 0) as listener:
        assert address(listener) == f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_ipv6_address_goes_into_a_url_in_brackets() -> None:
    with listen("api", "::1", 0) as listener:
        assert address(listener) == f"[::1]:{listener.getsockname()[1]}"


def test_a_taken_port_is_named_with_its_listener() -> None:
    with listen("api", "127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Unavailable, match=f"^cannot listen on 127.0.0.1:{port} for ops: address already in use$"):
            listen("ops", "127.0.0.1", port)


def test_a_host_that_is_no_address_is_named() -> None:
    with pytest.raises(Unavailable, match=r"^cannot listen on not an address:0 for api: no address of that name$"):
        listen("api", "not an address", 0)


def test_what_it_accepts_sends_each_write_at_once() -> None:
    with listen("ops", "127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
