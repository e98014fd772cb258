"""Which transport a provider gets."""

import pytest

from gateway.policy.catalogue import Provider, Secret, Timeouts
from gateway.upstream import connect
from gateway.upstream.pool import Pool
from gateway.upstream.stock import Stock


def provider(transport: str = "http1", proxy: str | None = None, base_url: str = "http://127.0.0.1:1") -> Provider:
    return Provider(name="p", dialect="openai", base_url=base_url, api_key=Secret("k"), transport=transport, proxy=proxy)


def test_the_provider_chooses_its_transport() -> None:
    assert isinstance(connect(provider(), Timeouts(), max_connections=1), Pool)
    assert isinstance(connect(provider("httpx"), Timeouts(), max_connections=1), Stock)
    assert isinstance(connect(provider("httpx", "http://127.0.0.1:2"), Timeouts(), max_connections=1), Stock)


@pytest.mark.parametrize("bad", [provider("http3"), provider(proxy="http://127.0.0.1:2"), provider(base_url="nowhere")])
def test_what_cannot_be_is_refused_at_once(bad: Provider) -> None:
    with pytest.raises(ValueError, match=r"transport|proxy|base URL"):
        connect(bad, Timeouts(), max_connections=1)
