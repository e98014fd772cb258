from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import scalars
from gateway.config.scalars import Scalar


def notation(annotated: object) -> Scalar:
    found = next(meta.extra["scalar"] for meta in get_args(annotated)[1:] if isinstance(meta, msgspec.Meta) and meta.extra)
    assert isinstance(found, Scalar)
    return found


@pytest.mark.parametrize(
    ("annotated", "text", "value"),
    [
        (scalars.Duration, "250ms", 0.25),
        (scalars.Duration, "0s", 0.0),
        (scalars.Duration, "1.5m", 90.0),
        (scalars.Duration, "2h", 7200.0),
        (scalars.Duration, "7d", 604_800.0),
        (scalars.Size, "10MiB", 10 << 20),
        (scalars.Size, "1GiB", 1 << 30),
        (scalars.Instant, "2027-01-01", 1_798_761_600.0),
        (scalars.Instant, "2027-01-01T01:00:00+01:00", 1_798_761_600.0),
        (scalars.Instant, "2027-01-01T00:00:00Z", 1_798_761_600.0),
        (scalars.Network, "10.0.0.1", "10.0.0.1/32"),
        (scalars.Network, "fd00::/8", "fd00::/8"),
        (scalars.UsdPerMillion, "0.23", Decimal("0.23")),
        (scalars.UsdPerMillion, "0.1230", Decimal("0.123")),
        (scalars.UsdPerMillion, "0.0375010", Decimal("0.037501")),
        (scalars.Name, "deep_infra-2.eu", "deep_infra-2.eu"),
        (scalars.ModelName, "meta-llama/Llama-3.3:free", "meta-llama/Llama-3.3:free"),
    ],
)
def test_a_notation_is_read(annotated: object, text: str, value: object) -> None:
    assert notation(annotated).read(text) == value


@pytest.mark.parametrize(
    ("annotated", "texts"),
    [
        (scalars.Duration, ["", "5", "s", "5 s", "-5s", "5S", "5w", "1e3s", "٣s"]),
        (scalars.Size, ["", "10", "10MB", "1.5KiB", "-1B"]),
        (scalars.Instant, ["", "tomorrow", "2027-13-01", "01/02/2027"]),
        (scalars.Network, ["", "example.com", "10.0.0.1/8", "10.0.0.0/33"]),
        (scalars.UsdPerMillion, ["", "-1", "0.0375001", "1e-3", "nan", "$1"]),
        (scalars.Factor, ["", "-1", "inf", "1,5"]),
        (scalars.Name, ["", "a b", "a:b", "-a", "a/b", "é", "x" * 65]),
        (scalars.ModelName, ["", "a b", "a;b", "a,b", "a\nb", "x" * 129]),
    ],
)
def test_any_other_text_is_refused(annotated: object, texts: list[str]) -> None:
    read: Callable[[str], Any] = notation(annotated).read
    for text in texts:
        with pytest.raises(ValueError):  # noqa: PT011  # the reader's caller words the message
            read(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_survives_being_written(milliseconds: int) -> None:
    duration = notation(scalars.Duration)
    assert duration.read(duration.write(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@given(st.integers(min_value=1, max_value=2**50))
def test_a_size_survives_being_written(size: int) -> None:
    notation_of_size = notation(scalars.Size)
    assert notation_of_size.read(notation_of_size.write(size)) == size
