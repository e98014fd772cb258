"""The ring of keys that were met: how long answers are good, what outdates them, and how many there are."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.keyring import KNOWN_S, LONGEST_S, UNKNOWN_S, Entry, Keyring
from gateway.policy.tenancy import Bearer, Found, KeyRecord, Tenants
from tests.catalogues import key


def bearer(key_id: str) -> Bearer:
    record = KeyRecord(id=key_id, name=key_id, org="acme", plan=None, definition="{}", created_unix_ms=0, updated_unix_ms=0)
    return Found(key=record, tenants=Tenants()), key(id=key_id, name=key_id)


def kept(ring: Keyring, digest: bytes, key_id: str | None, now_s: float = 0.0) -> Entry:
    entry = Entry(None if key_id is None else bearer(key_id), now_s, ring.mark)
    ring.keep(digest, entry)
    return entry


@pytest.mark.parametrize(("key_id", "good_s"), [("k", KNOWN_S), (None, UNKNOWN_S)])
def test_an_answer_is_good_for_its_time_however_often_it_is_used(key_id: str | None, good_s: float) -> None:
    ring = Keyring()
    entry = kept(ring, b"d", key_id)
    assert [ring.find(b"d", at * good_s / 10) for at in range(10)] == [entry] * 10
    assert ring.find(b"d", good_s) is None


def test_what_named_a_key_is_gone_by_for_longer_where_nobody_can_be_asked() -> None:
    ring = Keyring()
    entry = kept(ring, b"d", "k")
    kept(ring, b"e", None)
    ring.hear(7)
    assert (ring.find(b"d", 1.0), ring.last(b"d", 1.0), ring.last(b"e", 1.0)) == (None, entry, None)
    assert ring.last(b"d", LONGEST_S) is None


def test_an_epoch_that_differs_outdates_all_and_the_same_one_nothing() -> None:
    ring = Keyring()
    ring.hear(7)
    entry = kept(ring, b"d", "k")
    for epoch in (7, None, 7):
        ring.hear(epoch)
        assert ring.find(b"d", 0.0) is entry
    ring.hear(3)  # a store that was emptied counts anew
    assert not ring.stands(entry)
    assert ring.find(b"d", 0.0) is None


def test_a_message_takes_out_its_key_and_every_unknown_one() -> None:
    ring = Keyring()
    ring.hear(7)
    first, second, other = kept(ring, b"1", "k"), kept(ring, b"2", "k"), kept(ring, b"3", "other")
    kept(ring, b"4", None)
    ring.take_out("k", 8)
    for epoch in (7, 8):  # the store's answers may be behind the messages
        ring.hear(epoch)
    assert [ring.find(digest, 0.0) for digest in (b"1", b"2", b"3", b"4")] == [None, None, other, None]
    assert [ring.stands(entry) for entry in (first, second, other)] == [False, False, True]
    assert ring.last(b"1", 0.0) is None


def test_a_message_before_which_another_was_lost_outdates_all_when_the_epoch_is_heard() -> None:
    ring = Keyring()
    ring.hear(7)
    other = kept(ring, b"d", "other")
    ring.take_out("k", 9)
    assert ring.stands(other)
    ring.hear(9)
    assert not ring.stands(other)


def test_a_message_that_may_be_any_keys_business_outdates_all_once() -> None:
    ring = Keyring()
    ring.hear(7)
    before = kept(ring, b"d", "k")
    ring.outdate(8)
    after = kept(ring, b"e", "k")
    ring.hear(8)
    assert (ring.stands(before), ring.stands(after)) == (False, True)


@pytest.mark.parametrize("change", [lambda ring: ring.hear(8), lambda ring: ring.outdate(8), lambda ring: ring.take_out("k", 8)])
def test_an_answer_that_a_change_overtook_is_not_kept(change: object) -> None:
    ring = Keyring()
    ring.hear(7)
    entry = Entry(bearer("k"), 0.0, ring.mark)
    assert callable(change)
    change(ring)
    ring.keep(b"d", entry)
    assert (ring.find(b"d", 0.0), ring.last(b"d", 0.0), ring.stands(entry)) == (None, None, False)


def test_who_was_not_met_for_longest_goes_first() -> None:
    ring = Keyring(most_known=3, most_unknown=2)
    for digest in (b"1", b"2", b"3"):
        kept(ring, digest, digest.decode())
    assert ring.find(b"1", 0.0)
    kept(ring, b"4", "4")
    assert [bool(ring.find(digest, 0.0)) for digest in (b"1", b"2", b"3", b"4")] == [True, False, True, True]
    for number in range(1_000):
        kept(ring, b"unknown-%d" % number, None)
    assert len(ring) == 5


def test_a_key_that_is_there_no_more_is_forgotten() -> None:
    ring = Keyring()
    kept(ring, b"d", "k")
    entry = kept(ring, b"d", None)
    assert (ring.find(b"d", 0.0), ring.last(b"d", 0.0)) == (entry, None)


KEYS = ("a", "b")


class World:
    """Keys whose versions are counted, and a ring that hears of some changes at once and of others by the epoch alone."""

    def __init__(self) -> None:
        self.ring, self.epoch, self.now_s = Keyring(), 0, 0.0
        self.versions, self.told = dict.fromkeys(KEYS, 0), dict.fromkeys(KEYS, 0)
        self.asked: dict[str, tuple[int, Entry]] = {}
        self.said: dict[int, int] = {}

    def change(self, name: str) -> None:
        self.lose(name)
        self.ring.take_out(name, self.epoch)
        self.told[name] = self.versions[name]

    def lose(self, name: str) -> None:
        self.epoch += 1
        self.versions[name] += 1

    def hear(self, name: str) -> None:
        self.ring.hear(self.epoch)
        self.told = dict(self.versions)

    def ask(self, name: str) -> None:
        self.asked[name] = self.versions[name], Entry(bearer(name), self.now_s, self.ring.mark)

    def answer(self, name: str) -> None:
        if name in self.asked:
            version, entry = self.asked.pop(name)
            self.said[id(entry)] = version
            self.ring.keep(name.encode(), entry)

    def wait(self, name: str) -> None:
        self.now_s += 20.0

    def check(self) -> None:
        for name in KEYS:
            found = self.ring.find(name.encode(), self.now_s)
            if found is not None:
                assert self.said[id(found)] >= self.told[name]
                assert self.now_s - found.asked_s < KNOWN_S


ACTS = st.sampled_from([World.change, World.lose, World.hear, World.ask, World.answer, World.wait])


@given(st.lists(st.tuples(ACTS, st.sampled_from(KEYS)), max_size=60))
def test_no_answer_is_older_than_the_last_change_that_was_heard_of(
    acts: Sequence[tuple[Callable[[World, str], None], str]],
) -> None:
    world = World()
    for act, name in acts:
        act(world, name)
        world.check()
