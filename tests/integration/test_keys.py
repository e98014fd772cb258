"""The room of keys over a database that is scripted: who is asked when, and what is gone by while nobody answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from gateway.admission.changes import ALL_KEYS, Change
from gateway.errors import AuthUnavailable, IpNotAllowed, Unauthenticated
from gateway.keys import LOOK_UP_S, MOST_LOOK_UPS, NOTED_EVERY_S, REST_S, Clock, Keys, Principal, Sources
from gateway.policy.catalogue import Catalogue, Key
from gateway.policy.credentials import digest
from gateway.policy.keyring import KNOWN_S, LONGEST_S, UNKNOWN_S
from gateway.policy.minting import mint
from gateway.policy.tenancy import Found, KeyRecord, Tenants
from gateway.stores.keys import LookUpError
from gateway.tasks import Owned
from tests.catalogues import catalogue, key, model

PEPPER = b"pepper"
SECRET = mint("live", "0123456789", bytes(32))
START_UNIX_MS = 1_790_000_000_000


def found(**fields: Any) -> Found:
    record = {
        "id": "k1",
        "name": "ci",
        "org": "acme",
        "plan": None,
        "definition": "{}",
        "created_unix_ms": 0,
        "updated_unix_ms": 0,
    }
    return Found(key=KeyRecord(**{**record, **fields}), tenants=Tenants())


class Shelf:
    """Has keys by secret; `away` fails, `waits` answers when it is told to."""

    def __init__(self) -> None:
        self.has: dict[bytes, Found] = {}
        self.asked = 0
        self.away = False
        self.waits: asyncio.Event | None = None
        self.used: list[Mapping[str, int]] = []

    def put(self, secret: str, **fields: Any) -> None:
        self.has[digest(PEPPER, secret)] = found(**fields)

    async def find(self, digests: Sequence[bytes]) -> Found | None:
        self.asked += 1
        answer = self.has.get(digests[0])
        if self.waits is not None:
            await self.waits.wait()
        if self.away:
            raise LookUpError("scripted")
        return answer

    async def note_use(self, used_unix_ms: Mapping[str, int]) -> None:
        if self.away:
            raise LookUpError("scripted")
        self.used.append(dict(used_unix_ms))

    async def close(self) -> None:
        pass


class World:
    """The room, its database, and the hands of its clock and of the store's epoch."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.shelf.put(SECRET)
        self.now_s, self.epoch, self.meant = 1_000.0, 0, 0
        self.catalogue: Catalogue = catalogue(model("m"))
        clock = Clock(lambda: self.now_s, lambda: START_UNIX_MS + round(1000 * (self.now_s - 1_000)))
        self.tasks = Owned()
        self.keys = Keys(PEPPER, Sources(self.shelf, self.mean, lambda: self.epoch), clock, self.tasks)

    def mean(self, has: Found) -> Key:
        self.meant += 1
        if has.key.definition == "damaged":
            raise ValueError("damaged")
        return key(id=has.key.id, name=has.key.name, ips=tuple(msgspec.json.decode(has.key.definition).get("ips", ())))

    def enter(self, secret: str = SECRET, address: str | None = None) -> Principal | Awaitable[Principal]:
        return self.keys.authenticate(self.catalogue, [(b"x-api-key", secret.encode())], address)

    async def entered(self, secret: str = SECRET, address: str | None = None) -> Principal:
        entering = self.enter(secret, address)
        return entering if isinstance(entering, Principal) else await entering


def standing(principal: Principal) -> bool:
    return principal.stands


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.tasks.wait()


async def test_who_is_known_enters_without_a_wait(world: World) -> None:
    first = await world.entered()
    again = world.enter()
    assert isinstance(again, Principal)
    assert (again.key is first.key, world.shelf.asked) == (True, 1)
    world.now_s += KNOWN_S
    entering = world.enter()
    assert not isinstance(entering, Principal)
    renewed = await entering
    assert (renewed.key is first.key, world.shelf.asked, world.meant) == (True, 2, 1), "what is the same is not worked out again"


async def test_a_key_of_the_file_asks_nobody(world: World) -> None:
    own = key(id="own")
    world.catalogue = msgspec.structs.replace(world.catalogue, keys={digest(PEPPER, SECRET): own})
    entered = world.enter()
    assert isinstance(entered, Principal)
    assert (entered.key, entered.stands, world.shelf.asked) == (own, True, 0)
    await entered.ask_again()
    assert world.shelf.asked == 0


async def test_many_who_bring_one_key_ask_once(world: World) -> None:
    world.shelf.waits = asyncio.Event()
    entering = [asyncio.create_task(world.entered()) for _ in range(50)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    entering[0].cancel()
    world.shelf.waits.set()
    ends = await asyncio.gather(*entering, return_exceptions=True)
    assert isinstance(ends[0], asyncio.CancelledError)
    assert all(isinstance(each, Principal) for each in ends[1:]), "one who leaves does not spoil it for the others"
    assert world.shelf.asked == 1


async def test_an_unknown_key_is_asked_about_every_few_seconds(world: World) -> None:
    stranger = mint("live", "9876543210", bytes(32))
    for at_s, asked in ((0.0, 1), (UNKNOWN_S - 1, 1), (UNKNOWN_S, 2)):
        world.now_s = 1_000.0 + at_s
        with pytest.raises(Unauthenticated):
            await world.entered(stranger)
        assert world.shelf.asked == asked
    world.shelf.put(stranger, id="k2")
    world.keys.heed(Change("k2", 1))
    assert (await world.entered(stranger)).key.id == "k2"


@pytest.mark.parametrize("secret", [SECRET[:-1] + "~", "tg_live_guessed", "tg_"])
async def test_a_garbled_key_costs_no_look_up(secret: str, world: World) -> None:
    with pytest.raises(Unauthenticated):
        world.enter(secret)
    assert world.shelf.asked == 0


@pytest.mark.parametrize("state", [{"revoked_unix_ms": 1}, {"blocked_unix_ms": 1}])
@pytest.mark.parametrize("cut_off", [False, True])
async def test_what_was_granted_is_looked_at_again_where_something_has_changed(
    cut_off: bool, state: dict[str, int], world: World
) -> None:
    principal = await world.entered()
    assert standing(principal)
    world.shelf.put(SECRET, **state)
    world.epoch += 1
    if not cut_off:
        world.keys.heed(Change("k1", world.epoch))
    assert not standing(principal)
    with pytest.raises(Unauthenticated):
        await principal.ask_again()
    with pytest.raises(Unauthenticated):
        await world.entered()


async def test_without_the_store_a_change_is_seen_when_what_is_known_is_too_old(world: World) -> None:
    await world.entered()
    world.shelf.put(SECRET, revoked_unix_ms=1)
    world.now_s += KNOWN_S - 1
    assert isinstance(world.enter(), Principal)
    world.now_s += 1
    with pytest.raises(Unauthenticated):
        await world.entered()


async def test_a_change_of_another_key_costs_nobody_a_look_up_who_hears_the_message(world: World) -> None:
    principal = await world.entered()
    world.keys.heed(Change("other", 1))
    world.epoch = 1
    assert standing(principal)
    assert isinstance(world.enter(), Principal)
    world.keys.heed(Change(ALL_KEYS, 2))
    assert not standing(principal)
    await principal.ask_again()
    assert (principal.stands, world.shelf.asked) == (True, 2)


async def test_a_key_that_comes_to_mean_something_else_is_another_edition(world: World) -> None:
    first = await world.entered()
    world.shelf.put(SECRET, definition='{"ips": ["10.0.0.0/8"]}')
    world.keys.heed(Change("k1", 1))
    second = await world.entered(address="10.1.1.1")
    assert (first.key.ips, second.key.ips) == ((), ("10.0.0.0/8",))
    assert first.key.edition != second.key.edition
    with pytest.raises(IpNotAllowed):
        world.enter(address="192.168.0.1")
    await second.ask_again()


async def test_both_ends_of_a_key_are_held_to_the_moment(world: World) -> None:
    world.shelf.has[digest(PEPPER, SECRET)] = msgspec.structs.replace(
        found(expires_unix_ms=START_UNIX_MS + 9_000), not_after_unix_ms=START_UNIX_MS + 2_000
    )
    world.now_s += 1.9
    assert (await world.entered()).key.expires_at_s == START_UNIX_MS / 1000 + 2
    world.now_s += 0.1
    with pytest.raises(Unauthenticated, match="expired"):
        world.enter()


async def test_while_the_database_is_away_the_known_enter_and_others_are_not_called_wrong(world: World) -> None:
    stranger = mint("live", "9876543210", bytes(32))
    principal = await world.entered()
    world.shelf.away = True
    world.now_s += KNOWN_S
    world.epoch += 1
    assert (await world.entered()).key is principal.key
    await principal.ask_again()
    for secret in (stranger, "sk-from-elsewhere-0123"):
        with pytest.raises(AuthUnavailable) as raised:
            await world.entered(secret)
        assert raised.value.status == 503
    assert world.shelf.asked == 2, "a database that did not answer is left alone for a moment"
    world.now_s += REST_S
    assert (await world.entered()).key is principal.key
    assert world.shelf.asked == 3
    world.now_s += LONGEST_S
    with pytest.raises(AuthUnavailable):
        await world.entered()
    world.now_s += REST_S
    world.shelf.away = False
    assert (await world.entered()).stands
    with pytest.raises(Unauthenticated):
        await world.entered(stranger)


async def test_a_key_whose_change_was_heard_of_is_not_gone_by_while_the_database_is_away(world: World) -> None:
    principal = await world.entered()
    world.shelf.away = True
    world.keys.heed(Change("k1", 1))
    with pytest.raises(AuthUnavailable):
        await principal.ask_again()
    with pytest.raises(AuthUnavailable):
        await world.entered()


async def test_a_database_that_hangs_keeps_nobody_for_long(world: World) -> None:
    world.shelf.waits = asyncio.Event()
    async with asyncio.timeout(5 * LOOK_UP_S):
        with pytest.raises(AuthUnavailable):
            await world.entered()
        with pytest.raises(AuthUnavailable):
            await world.entered()
    assert world.shelf.asked == 1
    world.now_s += REST_S
    asking = asyncio.create_task(world.entered())
    await asyncio.sleep(0.01)
    with pytest.raises(AuthUnavailable):
        await world.entered("sk-from-elsewhere-0123")
    assert world.shelf.asked == 2, "one probes for all"
    world.shelf.waits.set()
    assert (await asking).key.id == "k1"


async def test_a_flood_of_guesses_waits_for_nobody(world: World) -> None:
    world.shelf.waits = asyncio.Event()
    guessing = [asyncio.create_task(world.entered(f"sk-guessed-{n:016}")) for n in range(2 * MOST_LOOK_UPS)]
    await asyncio.sleep(0.05)
    assert world.shelf.asked == MOST_LOOK_UPS
    assert sum(task.done() for task in guessing) == MOST_LOOK_UPS
    world.shelf.waits.set()
    ends = await asyncio.gather(*guessing, return_exceptions=True)
    assert {type(each) for each in ends} == {Unauthenticated, AuthUnavailable}


async def test_a_damaged_key_is_a_fault_of_its_own_alone(world: World) -> None:
    other = mint("live", "9876543210", bytes(32))
    world.shelf.put(SECRET, definition="damaged")
    world.shelf.put(other, id="k2")
    for _ in range(2):
        with pytest.raises(AuthUnavailable):
            await world.entered()
    assert (await world.entered(other)).key.id == "k2"


async def test_uses_are_told_once_a_minute_and_all_at_once(world: World) -> None:
    other = mint("live", "9876543210", bytes(32))
    world.shelf.put(other, id="k2")
    for _ in range(3):
        await world.entered()
        await world.entered(other)
    world.shelf.away = True
    await world.keys.tell_uses()
    world.shelf.away = False
    await world.keys.tell_uses()
    await world.keys.tell_uses()
    assert world.shelf.used == [{"k1": START_UNIX_MS, "k2": START_UNIX_MS}]
    world.now_s += KNOWN_S
    await world.entered()
    await world.keys.tell_uses()
    assert len(world.shelf.used) == 1, "a new look-up is no new minute"
    world.now_s += NOTED_EVERY_S - KNOWN_S
    await world.entered()
    await world.keys.tell_uses()
    assert world.shelf.used[1:] == [{"k1": START_UNIX_MS + round(1000 * NOTED_EVERY_S)}]


async def test_what_a_key_means_is_worked_out_anew_beside_another_configuration(world: World) -> None:
    first = await world.entered()
    world.keys.renew()
    again = world.enter()
    assert isinstance(again, Principal)
    assert (again.key is first.key, again.key.edition > first.key.edition) == (False, True)
    assert (world.shelf.asked, world.meant) == (1, 2), "the database is not asked again"
    assert world.enter().key is again.key  # type: ignore[union-attr]  # who is known enters at once
    world.now_s += KNOWN_S
    entering = world.enter()
    assert not isinstance(entering, Principal)
    assert ((await entering).key is again.key, world.meant) == (True, 2)
