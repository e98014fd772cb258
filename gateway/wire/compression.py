"""Compressed request bodies: gzip, the one coding that the published contracts take. Pure."""

import zlib

from gateway.errors import InvalidRequest, RequestTooLarge

GZIP = 16 + zlib.MAX_WBITS


def gunzip(body: bytes, limit_bytes: int) -> bytes:
    """Return what a gzip body holds; no more than the limit is ever unpacked, however small the body.

    Raises `RequestTooLarge` beyond the limit and `InvalidRequest` for what is not exactly one whole gzip member.
    """
    unpacking = zlib.decompressobj(GZIP)
    try:
        found = unpacking.decompress(body, limit_bytes + 1)
    except zlib.error:
        raise InvalidRequest("The request body is not valid gzip") from None
    if len(found) > limit_bytes:
        raise RequestTooLarge(f"The request body is larger than {limit_bytes} bytes once it is unpacked")
    if not unpacking.eof or unpacking.unused_data:
        raise InvalidRequest("The request body is not one whole gzip stream")
    return found
