"""Admission values as arguments, and replies as verdicts."""

import msgspec
import pytest

from gateway.admission.codec import KEPT_ROWS, MOST_UNITS, RowEncoder, encode_estimate, verdict
from gateway.policy.admission import Charge, Estimate, Granted, Level, Reach, Refusal, Refused, Row, Spent
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.limits import charges

PREFIX = "tg:v1:{c0}:"
KEY = charges("k:ci", Limits(rpm=60, concurrency=2), reach=Reach.REQUEST, tenant=True, ends_walk=True)
ONE = charges("d:a/one", Limits(rpd=9), reach=Reach.DEPLOYMENT, tenant=False)


def row(charged: tuple[Charge, ...]) -> Row:
    return Row("a/one/x", "a", Tier.DEFAULT, charged, Estimate(1, 2, 3, 5))


def packed(*figures: object) -> bytes:
    return msgspec.msgpack.encode(list(figures))


def test_charges_are_grouped_by_scope() -> None:
    encoded = RowEncoder(PREFIX).encode(KEY + ONE)
    assert encoded.keys == ("tg:v1:{c0}:k:ci", "tg:v1:{c0}:d:a/one")
    assert msgspec.msgpack.decode(encoded.blob) == [
        [["rpm", "conc"], "rpm", 0, 0, 0, 60, 60, 60_000, 1, 1, "conc", 2, 4, 0, 2, 0, 1, 1, 1],
        [["rpd"], "rpd", 1, 0, 2, 9, 0, 86_400_000, 0, 0],
    ]


def test_the_same_charges_are_encoded_once() -> None:
    encoder, charged = RowEncoder(PREFIX), KEY + ONE
    assert encoder.encode(charged) is encoder.encode(charged)
    assert encoder.encode(KEY + ONE) is not encoder.encode(charged)


def test_what_is_kept_is_bounded() -> None:
    encoder = RowEncoder(PREFIX)
    kept = [KEY + ONE for _ in range(KEPT_ROWS + 1)]
    first = encoder.encode(kept[0])
    for charged in kept:
        encoder.encode(charged)
    assert encoder.encode(kept[0]) is not first
    assert encoder.encode(kept[0]) == first


def test_charges_of_a_scope_stand_together() -> None:
    with pytest.raises(ValueError, match="k:ci"):
        RowEncoder(PREFIX).encode(KEY[:1] + ONE + KEY[1:])


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        (Estimate(1, 2, 3, 5), [1, 2, 3, 5, 1]),
        (Estimate(0, -2, 10**18, 10**18), [0, 0, MOST_UNITS, MOST_UNITS, 1]),
    ],
)
def test_figures_are_bounded(figures: Estimate, told: list[int]) -> None:
    assert msgspec.msgpack.decode(encode_estimate(figures)) == told


def test_a_grant() -> None:
    rows = (row(ONE), row(KEY))
    found = verdict(packed(0, 7, 1, [1, 2, 3, 4, 5, 0], [0, 0, -1, 1]), rows)
    levels = (Level(KEY[0], 1, 2, 3), Level(KEY[1], 4, 5, 0))
    assert found == Granted(1, 7, levels, (Refusal(0, ONE[0], None, never=True),))


def test_a_refusal_has_the_levels_of_the_last_row_that_was_tested() -> None:
    rows = (row(ONE), row(KEY), row(ONE))
    found = verdict(packed(1, 7, 1, [1, 2, 3, 4, 5, 0], [0, 0, 9, 0, 1, 1, -1, 0]), rows)
    levels = (Level(KEY[0], 1, 2, 3), Level(KEY[1], 4, 5, 0))
    assert found == Refused(7, (Refusal(0, ONE[0], 9, never=False), Refusal(1, KEY[1], None, never=False)), levels)


def test_nothing_to_choose_from() -> None:
    assert verdict(packed(1, 7, 0, [], []), ()) == Refused(7, (), ())


def test_a_spent_lease() -> None:
    assert verdict(packed(2, 7, 0, [], []), (row(KEY),)) == Spent(7)
