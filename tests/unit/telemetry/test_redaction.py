import pytest

from gateway.telemetry.redaction import redacted

PLANTED = "tg_live_0123456789_" + "A" * 49


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (f"key {PLANTED} refused", "key *** refused"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("sk-proj-0123456789abcdef", "***"),
        ("redis://user:pass@host:6379/0", "redis://***@host:6379/0"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        (f"x={PLANTED}".encode(), "x=***"),
        ("a desk-lamp task-force", "a desk-lamp task-force"),
        (7, 7),
        (None, None),
    ],
)
def test_text_that_looks_like_a_credential(value: object, left: object) -> None:
    assert redacted(value) == left


def test_values_under_telling_names_at_any_depth() -> None:
    event = {
        "headers": [{"Authorization": "Basic x", "x-api-key": "y"}],
        "admin_token": "z",
        "keys_pepper": b"p",
        "input_tokens": 12,
        "key_id": "k1",
        "password": None,
    }
    assert redacted(event) == {
        "headers": [{"Authorization": "***", "x-api-key": "***"}],
        "admin_token": "***",
        "keys_pepper": "***",
        "input_tokens": 12,
        "key_id": "k1",
        "password": None,
    }
