"""Keys of the database, on SQLite and on Postgres: what each change leaves behind, and what is refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from gateway.errors import Conflict, GatewayError, InvalidValue, NotFound, Outdated
from gateway.policy.credentials import digest, plain_digest
from gateway.policy.minting import parse, shown
from gateway.policy.tenancy import may_enter
from gateway.stores.audit import Sought
from gateway.stores.database import Reader
from gateway.stores.engine import Database
from gateway.stores.keys import KeyShelf, LookUpError
from gateway.stores.minted import Draft, Edit, Wanted
from gateway.stores.terms import Term
from tests.integration.stores.tenants import PEPPER, START_UNIX_MS, World, world_of

DRAFT = Draft(name="ci", org="acme", definition={"limits": {"rpm": 10}})


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    async with world_of(url) as found:
        yield found


@pytest.fixture
async def shelf(url: str) -> AsyncIterator[KeyShelf]:
    reader = Reader(url)
    found = KeyShelf(reader, url)
    yield found
    await found.close()
    await reader.close()


def digests(secret: str) -> tuple[bytes, bytes]:
    return digest(PEPPER, secret), plain_digest(secret)


async def test_a_key_that_is_made_is_found_by_its_secret_alone(world: World, shelf: KeyShelf) -> None:
    made = await world.keys.create("cli:ops", DRAFT)
    assert made.secret is not None
    minted = parse(made.secret)
    assert minted is not None
    assert (minted.env, minted.id, made.key.id) == ("live", made.key.id, minted.id)
    found = await shelf.find(digests(made.secret))
    assert found is not None
    assert (found.key.name, found.key.org, found.key.plan, found.key.definition) == ("ci", "acme", None, '{"limits":{"rpm":10}}')
    assert may_enter(found.key)
    assert found.not_after_unix_ms is None
    assert await shelf.find(digests(made.secret[:-1])) is None
    assert (made.told, world.crier.told) == (True, [((made.key.id,), False)])
    assert await world.acts() == [("cli:ops", "key.create", f"key:{made.key.id}")]


async def test_a_secret_is_seen_once_and_never_again(world: World, url: str) -> None:
    made = await world.keys.create("cli:ops", DRAFT)
    assert made.secret is not None
    body = made.secret[-49:-6]
    assert body not in repr(made)
    view = await world.keys.one("ci")
    assert view.secrets[0].display == shown(made.secret)
    kept = [view, await world.keys.many(Wanted()), await world.registry.tenancy.audit()]
    assert body not in msgspec.json.encode(kept).decode()
    engine = Database(url).open_to_read()
    async with engine.connect() as connection:
        for table in ("api_key", "key_secret", "audit"):
            rows = (await connection.execute(text(f"SELECT * FROM {table}"))).all()
            assert rows
            assert body not in str(rows)
    await engine.dispose()


async def test_after_a_rotation_both_secrets_are_good_until_the_overlap_ends(world: World, shelf: KeyShelf) -> None:
    first = await world.keys.create("cli:ops", DRAFT)
    world.now_unix_ms += 5
    second = await world.keys.rotate("admin:ann", first.key.id, 60_000)
    assert first.secret is not None
    assert second.secret is not None
    assert parse(second.secret) == parse(first.secret)
    older, newer = [await shelf.find(digests(secret)) for secret in (first.secret, second.secret)]
    assert older is not None
    assert newer is not None
    assert (older.key.id, older.not_after_unix_ms) == (newer.key.id, START_UNIX_MS + 60_005)
    assert newer.not_after_unix_ms is None
    assert older.ends_unix_s() == (START_UNIX_MS + 60_005) / 1000
    world.now_unix_ms += 5
    await world.keys.rotate("admin:ann", "ci", 3_600_000)
    again = await shelf.find(digests(first.secret))
    assert again is not None
    assert again.not_after_unix_ms == START_UNIX_MS + 60_005, "a later rotation prolongs nothing"
    view = await world.keys.one("ci")
    assert [each.not_after_unix_ms is None for each in view.secrets] == [False, False, True]
    assert (await world.acts())[1:] == [("admin:ann", "key.rotate", f"key:{first.key.id}")] * 2


async def test_a_revocation_is_for_good(world: World, shelf: KeyShelf) -> None:
    made = await world.keys.create("cli:ops", DRAFT)
    assert made.secret is not None
    gone = await world.keys.revoke("cli:ops", "ci", cuts=True)
    assert (gone.key.state, gone.key.revoked_unix_ms) == ("revoked", START_UNIX_MS)
    found = await shelf.find(digests(made.secret))
    assert found is not None
    assert not may_enter(found.key)
    again = await world.keys.revoke("cli:ops", made.key.id)
    assert again.key == gone.key
    assert world.crier.told[1:] == [((made.key.id,), True), ((made.key.id,), False)], "who says it again tells it again"
    assert len(await world.acts()) == 2, "but changes nothing"
    for change in (
        world.keys.rotate("cli:ops", made.key.id, 0),
        world.keys.block("cli:ops", made.key.id),
        world.keys.unblock("cli:ops", made.key.id),
        world.keys.edit("cli:ops", made.key.id, Edit(name="other")),
    ):
        with pytest.raises(Conflict, match="revoked"):
            await change
    assert len(await world.acts()) == 2
    anew = await world.keys.create("cli:ops", DRAFT)
    assert anew.key.id != made.key.id, "the name is free again"


async def test_a_block_holds_until_it_is_undone(world: World, shelf: KeyShelf) -> None:
    made = await world.keys.create("cli:ops", DRAFT)
    assert made.secret is not None
    for change, state, enters in (
        (world.keys.block, "blocked", False),
        (world.keys.block, "blocked", False),
        (world.keys.unblock, "active", True),
        (world.keys.unblock, "active", True),
    ):
        assert (await change("cli:ops", "ci")).key.state == state
        found = await shelf.find(digests(made.secret))
        assert found is not None
        assert may_enter(found.key) is enters
    assert [act for _, act, _ in await world.acts()] == ["key.create", "key.block", "key.unblock"]


async def test_an_edit_changes_what_it_names(world: World, shelf: KeyShelf) -> None:
    made = await world.keys.create("cli:ops", DRAFT)
    assert made.secret is not None
    seen = made.key.updated_unix_ms
    edited = await world.keys.edit(
        "cli:ops", "ci", Edit(definition={"max_n": 2}, expires_unix_ms=5, expected_updated_unix_ms=seen)
    )
    assert (edited.key.name, edited.key.definition, edited.key.state) == ("ci", {"max_n": 2}, "expired")
    assert (edited.key.updated_unix_ms or 0) > (seen or 0)
    with pytest.raises(Outdated):
        await world.keys.edit("cli:ops", "ci", Edit(name="other", expected_updated_unix_ms=seen))
    free = await world.keys.edit("cli:ops", "ci", Edit(expires_unix_ms=None, plan="pro", name="other"))
    assert (free.key.name, free.key.plan, free.key.expires_unix_ms) == ("other", "pro", None)
    [last] = await world.registry.tenancy.audit(Sought(limit=1))
    assert (last.action, last.detail) == ("key.edit", {"name": "other", "plan": "pro", "expires_unix_ms": None})


REFUSED: list[tuple[dict[str, Any], type[GatewayError], str]] = [
    ({"org": "nobody"}, InvalidValue, "unknown org"),
    ({"plan": "gold"}, InvalidValue, "unknown plan"),
    ({"name": "a b"}, InvalidValue, "expected a name"),
    ({"env": "Live!"}, InvalidValue, "environment"),
    ({"definition": {"limits": {"rpm": 0}}}, InvalidValue, "must be at least 1"),
    ({"definition": {"secret": "sk-0123456789abcdef"}}, InvalidValue, "no place"),
    ({"name": "taken"}, Conflict, "has a key 'taken' already"),
]


@pytest.mark.parametrize(("fields", "kind_of_error", "said"), REFUSED)
async def test_what_cannot_be_made_leaves_nothing_behind(
    fields: dict[str, Any], kind_of_error: type[GatewayError], said: str, world: World
) -> None:
    await world.keys.create("cli:ops", Draft(name="taken", org="acme"))
    with pytest.raises(kind_of_error, match=said):
        await world.keys.create("cli:ops", Draft(**{"name": "ci", "org": "acme", **fields}))
    assert [key.name for key in await world.keys.many(Wanted())] == ["taken"]
    assert (len(await world.acts()), len(world.crier.told)) == (1, 1)


async def test_two_who_make_one_name_at_once_make_one_key(world: World) -> None:
    made = await asyncio.gather(*(world.keys.create("cli:ops", DRAFT) for _ in range(5)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in made) == ["Changed", *["Conflict"] * 4]
    assert len(await world.keys.many(Wanted())) == len(await world.acts()) == 1


async def test_two_who_edit_what_they_saw_do_not_overwrite_each_other(world: World) -> None:
    made = await world.keys.create("cli:ops", DRAFT)
    edits = (Edit(definition={"max_n": n}, expected_updated_unix_ms=made.key.updated_unix_ms) for n in (1, 2, 3))
    ends = await asyncio.gather(*(world.keys.edit("cli:ops", "ci", edit) for edit in edits), return_exceptions=True)
    assert sorted(type(each).__name__ for each in ends) == ["Changed", "Outdated", "Outdated"]


async def test_a_key_is_named_by_its_id_or_by_a_name_that_is_one_keys(world: World) -> None:
    await world.terms.put("cli:ops", Term(kind="org", name="beta"), {})
    one, other = [await world.keys.create("cli:ops", Draft(name="ci", org=org)) for org in ("acme", "beta")]
    with pytest.raises(InvalidValue, match="names 2 keys") as raised:
        await world.keys.block("cli:ops", "ci")
    assert one.key.id in raised.value.message
    assert (await world.keys.one(other.key.id)).org == "beta"
    await world.keys.revoke("cli:ops", one.key.id)
    assert (await world.keys.one("ci")).id == other.key.id
    with pytest.raises(NotFound):
        await world.keys.one("cj")


async def test_keys_are_listed_by_what_is_asked_for(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        await world.keys.create("cli:ops", Draft(name=name, org="acme", plan="pro" if name == "a" else None))
    await world.keys.block("cli:ops", "b")
    await world.keys.revoke("cli:ops", "c")
    await world.keys.edit("cli:ops", "d", Edit(expires_unix_ms=START_UNIX_MS))

    async def names(**wanted: Any) -> list[str]:
        return [key.name for key in await world.keys.many(Wanted(**wanted))]

    assert [await names(state=state) for state in ("active", "blocked", "revoked", "expired")] == [["a"], ["b"], ["c"], ["d"]]
    assert (await names(plan="pro"), await names(org="beta")) == (["a"], [])
    first = await world.keys.many(Wanted(limit=2))
    rest = await world.keys.many(Wanted(after=first[-1].id))
    assert sorted(key.name for key in (*first, *rest)) == ["a", "b", "c", "d"]
    with pytest.raises(InvalidValue):
        await names(state="gone")


async def test_a_use_is_noted_and_never_goes_back(world: World, shelf: KeyShelf) -> None:
    made = await world.keys.create("cli:ops", DRAFT)
    for used, noted in ((7, 7), (5, 7), (9, 9)):
        await shelf.note_use({made.key.id: used, "gone": used})
        assert (await world.keys.one("ci")).last_used_unix_ms == noted
    assert (await world.keys.one("ci")).updated_unix_ms == made.key.updated_unix_ms, "a use is no change"


async def test_a_key_from_elsewhere_is_found_by_the_digest_that_it_had_there(world: World, shelf: KeyShelf, url: str) -> None:
    made = await world.keys.create("cli:ops", DRAFT)
    elsewhere = "sk-key-from-elsewhere-0123456789"
    await _insert(url, elsewhere, made.key.id, "sha256", plain_digest(elsewhere))
    found = await shelf.find(digests(elsewhere))
    assert found is not None
    assert found.key.id == made.key.id
    await _insert(url, "other", made.key.id, "sha256", digest(PEPPER, "other"))
    assert await shelf.find(digests("other")) is None, "what one scheme keeps is no proof for the other"
    rotated = await world.keys.rotate("cli:ops", "ci", 0)
    assert rotated.secret is not None
    assert rotated.secret.startswith(f"tg_live_{made.key.id}_")


async def _insert(url: str, display: str, key_id: str, scheme: str, known_by: bytes) -> None:
    engine = Database(url).open_to_write()
    row = "INSERT INTO key_secret (digest, scheme, key_id, display, created_unix_ms) VALUES (:d, :s, :k, :n, 1)"
    async with engine.begin() as connection:
        await connection.execute(text(row), {"d": known_by, "s": scheme, "k": key_id, "n": display[:4]})
    await engine.dispose()


async def test_the_audit_cannot_be_rewritten(world: World, url: str) -> None:
    await world.keys.create("cli:ops", DRAFT)
    engine = Database(url).open_to_write()
    for statement in ("UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"):
        with pytest.raises(SQLAlchemyError):
            async with engine.begin() as connection:
                await connection.execute(text(statement))
    await engine.dispose()
    assert [actor for actor, *_ in await world.acts()] == ["cli:ops"]


async def test_a_store_that_cannot_be_told_undoes_nothing(world: World) -> None:
    world.crier.hears = False
    made = await world.keys.create("cli:ops", DRAFT)
    gone = await world.keys.revoke("cli:ops", "ci")
    assert (made.told, gone.told, gone.key.state) == (False, False, "revoked")


async def test_a_caller_that_leaves_does_not_leave_a_change_half_made(world: World) -> None:
    making = asyncio.get_running_loop().create_task(world.keys.create("cli:ops", DRAFT))
    await asyncio.sleep(0)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    async with asyncio.timeout(5.0):
        while not await world.keys.many(Wanted()):
            await asyncio.sleep(0.01)
    assert len(await world.acts()) == 1


async def test_without_tables_nobody_can_tell_whose_a_key_is(empty_url: str) -> None:
    reader = Reader(empty_url)
    shelf = KeyShelf(reader, empty_url)
    for ask in (shelf.find(digests("x" * 20)), shelf.note_use({"k": 1})):
        with pytest.raises(LookUpError):
            await ask
    await shelf.close()
    await reader.close()
