import re
from zlib import crc32

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.policy.credentials import is_secret
from gateway.policy.minting import ALPHABET, ID_BYTES, SECRET_BYTES, Minted, is_garbled, mint, new_id, parse, shown

ENVS = st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True)
IDS = st.binary(min_size=ID_BYTES, max_size=ID_BYTES).map(new_id)
CHANCES = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)
KEYS = st.builds(mint, ENVS, IDS, CHANCES)
SAMPLE = mint("live", new_id(bytes(ID_BYTES)), bytes(range(SECRET_BYTES)))


@given(ENVS, IDS, CHANCES)
def test_what_is_minted_says_what_it_is(env: str, key_id: str, chance: bytes) -> None:
    key = mint(env, key_id, chance)
    assert re.fullmatch(r"tg_[a-z0-9]{1,12}_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}", key)
    assert parse(key) == Minted(env, key_id)
    assert not is_garbled(key)
    assert is_secret(key)


def number(digits: str) -> int:
    value = 0
    for digit in digits:
        value = 62 * value + ALPHABET.index(digit)
    return value


@given(KEYS)
def test_the_checksum_is_the_crc32_of_all_before_it(key: str) -> None:
    assert number(key[-6:]) == crc32(key[:-6].encode())


@given(CHANCES)
def test_no_bit_of_chance_is_lost(chance: bytes) -> None:
    key = mint("live", "0" * 10, chance)
    assert number(key[-49:-6]) == int.from_bytes(chance)


@given(KEYS, st.data())
def test_one_wrong_character_is_garbage(key: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(len("tg_"), len(key) - 1))
    wrong = data.draw(st.sampled_from(ALPHABET + "_-é \n"))
    assume(wrong != key[at])
    assert is_garbled(key[:at] + wrong + key[at + 1 :])


@given(KEYS, st.data())
def test_two_characters_that_changed_places_are_garbage(key: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(len("tg_"), len(key) - 2))
    assume(key[at] != key[at + 1])
    assert is_garbled(key[:at] + key[at + 1] + key[at] + key[at + 2 :])


@given(st.text())
def test_no_text_is_both_a_key_and_garbage(text: str) -> None:
    assert parse(text) is None
    assert is_garbled(f"tg_{text}")
    assert not is_garbled(f"sk-{text}")


@pytest.mark.parametrize("text", [SAMPLE + "\n", f" {SAMPLE}", SAMPLE[:-1], SAMPLE + "0", SAMPLE.upper()])
def test_a_key_is_read_as_a_whole(text: str) -> None:
    assert parse(text) is None


@given(KEYS)
def test_what_is_shown_gives_nothing_of_the_secret_away(key: str) -> None:
    assert shown(key) == f"{key[:-49]}…{key[-4:]}"
    assert key[-49:-6] not in shown(key)


@pytest.mark.parametrize(
    ("env", "key_id", "chance"),
    [
        ("", "0" * 10, bytes(32)),
        ("Live", "0" * 10, bytes(32)),
        ("a" * 13, "0" * 10, bytes(32)),
        ("a_b", "0" * 10, bytes(32)),
        ("live", "0" * 9, bytes(32)),
        ("live", "0" * 10, bytes(31)),
    ],
)
def test_no_other_key_is_minted(env: str, key_id: str, chance: bytes) -> None:
    with pytest.raises(ValueError, match=r"made of 32 bytes|an environment is"):
        mint(env, key_id, chance)
