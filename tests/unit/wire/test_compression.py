import gzip

import pytest

from gateway.errors import InvalidRequest, RequestTooLarge
from gateway.wire.compression import gunzip

TEXT = b'{"model":"m"}' * 100
PACKED = gzip.compress(TEXT)


def test_a_body_is_unpacked_up_to_the_limit() -> None:
    assert gunzip(PACKED, len(TEXT)) == TEXT
    assert gunzip(gzip.compress(b""), 0) == b""


def test_no_more_than_the_limit_is_unpacked() -> None:
    with pytest.raises(RequestTooLarge):
        gunzip(PACKED, len(TEXT) - 1)
    with pytest.raises(RequestTooLarge):
        gunzip(gzip.compress(bytes(10_000_000)), 1000)


@pytest.mark.parametrize(
    "body", [b"", TEXT, PACKED[:-1], PACKED[:40], PACKED + b"x", PACKED + PACKED, PACKED[:-8] + bytes(8)], ids=len
)
def test_what_is_not_one_whole_gzip_stream_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        gunzip(body, 10_000)
