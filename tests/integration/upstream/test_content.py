"""gzip, bit by bit, bounded."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.content import PIECE_LIMIT_BYTES, Gunzip


def gunzip(*pieces: bytes) -> bytes:
    decoder = Gunzip()
    out = b""
    for piece in pieces:
        out += decoder.feed(piece)
        while decoder.has_more:
            out += decoder.feed(b"")
    assert decoder.is_whole
    return out


@given(members=st.lists(st.binary(max_size=300), min_size=1, max_size=3), data=st.data())
def test_any_split_of_any_members_gives_the_same(members: list[bytes], data: st.DataObject) -> None:
    coded = b"".join(gzip.compress(member) for member in members)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(coded)), max_size=6)))
    pieces = [coded[start:end] for start, end in zip([0, *cuts], [*cuts, len(coded)], strict=True)]
    assert gunzip(*pieces) == b"".join(members)


def test_a_bomb_comes_in_bounded_pieces() -> None:
    decoder = Gunzip()
    piece = decoder.feed(gzip.compress(bytes(10_000_000)))
    total = len(piece)
    while decoder.has_more:
        piece = decoder.feed(b"")
        assert len(piece) <= PIECE_LIMIT_BYTES
        total += len(piece)
    assert total == 10_000_000
    assert decoder.is_whole


def test_nothing_is_whole_and_a_part_is_not() -> None:
    decoder = Gunzip()
    assert decoder.is_whole
    decoder.feed(gzip.compress(b"hello")[:-1])
    assert not decoder.is_whole


def test_what_is_not_gzip_is_an_error() -> None:
    with pytest.raises(zlib.error):
        Gunzip().feed(b'{"error": "plain"}')
