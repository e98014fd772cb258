import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry.bodies import BEHIND_BYTES, MOST_BYTES, Body, spelled
from gateway.telemetry.redaction import HIDDEN, excerpt

PEM = "-----BEGIN EC PRIVATE KEY-----\\nMHcCAQEE\\n-----END EC PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w"


def of(*pieces: bytes) -> Body:
    body = Body("request_body")
    for piece in pieces:
        body.add(piece)
    return body


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"api_key": "k", "model": "m"}', '{"api_key": "***", "model": "m"}'),
        ('{"X-Api-Key":"a\\"b","max_tokens":7}', '{"X-Api-Key":"***","max_tokens":7}'),
        ('{"arguments": "{\\"password\\": \\"p q\\", \\"n\\": 1}"}', '{"arguments": "{\\"password\\": \\"***\\", \\"n\\": 1}"}'),
        ('{"access_token": "t", "token": "u", "tokenizer": "v"}', '{"access_token": "***", "token": "***", "tokenizer": "v"}'),
        ('{"secret": "never ends', '{"secret": "***'),
        ('{"secret": {"type": "string"}}', '{"secret": {"type": "string"}}'),
        ("export OPENAI_API_KEY=abc && run", "export OPENAI_API_KEY=*** && run"),
        ("https://a.example/x?token=abc&n=1", "https://a.example/x?token=***&n=1"),
        ("the key is sk-proj-0123456789abcdef.", "the key is ***."),
        ("hf_abcdefghijklmnopqrst and ghp_abcdefghijklmnopqrst", "*** and ***"),
        (f"my key: {PEM}!", "my key: ***!"),
        (f"cut {PEM[:40]}", "cut ***"),
        (f"a jwt {JWT} here", "a jwt *** here"),
        ("what a secret is, and a password too", "what a secret is, and a password too"),
        ("see https://example.com:8080/a and 10.0.0.1", "see https://example.com:8080/a and 10.0.0.1"),
    ],
)
def test_what_looks_or_is_called_like_a_secret_is_left_out(text: str, left: str) -> None:
    assert of(text.encode()).shown(()) == left


def test_a_secret_of_ours_is_left_out_however_json_spells_it() -> None:
    secret = 'of/"ours"\\x'
    text = msgspec.json.encode({"content": f"a {secret} b"}).decode()
    for spelling in (text, text.replace("/", "\\/"), f"a {secret} b"):
        assert "ours" not in of(spelling.encode()).shown([secret])
    assert spelled(["short", ""]) == set()


def test_a_long_body_is_cut_and_no_half_of_a_secret_is_left() -> None:
    secret = "zq-planted-7f3a-0123456789"
    for ahead in range(MOST_BYTES - len(secret) - 2, MOST_BYTES + 2):
        shown = of(b"x" * ahead + secret.encode() + b"y" * MOST_BYTES).shown([secret])
        assert "zq" not in shown
        assert shown.count("x") == min(ahead, MOST_BYTES)


def test_pieces_are_counted_whole_and_kept_in_part() -> None:
    body = of(*[b"abc"] * MOST_BYTES)
    assert body.length_bytes == 3 * MOST_BYTES
    assert len(body._beginning) == MOST_BYTES + BEHIND_BYTES
    assert len(body.shown(())) == MOST_BYTES


def test_a_character_that_lies_across_the_cut_is_left_out_and_what_is_none_is_replaced() -> None:
    assert of(b"x" * (MOST_BYTES - 1) + "€".encode() * 9).shown(()) == "x" * (MOST_BYTES - 1)
    assert of("aé".encode(), b"\xff").shown(()) == "aé\ufffd"


def test_a_terminal_obeys_nothing_of_it() -> None:
    assert of(b"a\x1b[2Jb\x07\tc\nd\x7f").shown(()) == "a\\x1b[2Jb\\x07\tc\nd\\x7f"


@given(
    st.text(max_size=60),
    st.lists(st.sampled_from(["first-secret", "secret-second", "st-secret-se"]), max_size=4),
    st.integers(min_value=0, max_value=80),
)
def test_an_excerpt_is_a_beginning_without_any_of_the_values(noise: str, planted: list[str], length: int) -> None:
    values = ["first-secret", "secret-second", "st-secret-se"]
    text = noise.join(["", *planted, ""])
    shown = excerpt(text, length, values)
    assert not any(value in shown for value in values)
    assert shown == excerpt(text, length, [*reversed(values)])
    if not planted and HIDDEN not in shown:
        assert shown == text[:length]
