"""Keys of the database: made, shown, rotated, blocked, revoked. A secret is given out once, when it is made; its HMAC is kept.

Every change names its actor and has one row in the audit. Whoever it concerns is a key's id, or its name where that is one key's.
Unix milliseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import insert, or_, select, update

from gateway.errors import Conflict, InvalidValue
from gateway.policy.credentials import digest
from gateway.policy.minting import ID_BYTES, SECRET_BYTES, is_env, mint, new_id, shown
from gateway.policy.tenancy import Found, KeyRecord, state_of
from gateway.stores.audit import Act
from gateway.stores.keys import HMAC, of_row, referred, tenants_of, the_one
from gateway.stores.tenancy import Tenancy, Transaction, check_unchanged, later
from gateway.stores.tenancy_schema import KEYS, SECRETS

USUAL_ENV = "live"
DAMAGED = "damaged"


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A key to be made. `definition` is what the file would say of it, but for its name, org, plan, end and secret."""

    name: str
    org: str = "default"
    plan: str | None = None
    definition: Mapping[str, Any] = {}
    expires_unix_ms: int | None = None
    env: str = USUAL_ENV


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different of a key; what is UNSET stays."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    plan: str | msgspec.UnsetType | None = msgspec.UNSET
    definition: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    expires_unix_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    expected_updated_unix_ms: int | None = None
    """Refuse the change unless the key was changed last at this moment."""


class SecretView(msgspec.Struct, frozen=True, kw_only=True):
    """What may be shown of one secret of a key, and until when it is good."""

    display: str
    created_unix_ms: int
    not_after_unix_ms: int | None


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key as operators see it: `state` is active, blocked, expired, revoked, or damaged where its definition cannot be read.

    `source` is minted, litellm, or file: nobody knows when one of the configuration file was made.
    """

    id: str
    name: str
    org: str
    plan: str | None
    state: str
    definition: dict[str, Any]
    source: str
    secrets: tuple[SecretView, ...]
    created_unix_ms: int | None
    updated_unix_ms: int | None
    expires_unix_ms: int | None
    revoked_unix_ms: int | None
    blocked_unix_ms: int | None
    last_used_unix_ms: int | None


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made. `told` False: gateways learn of it when what they know is too old, within 30 s.

    `secret` is the key itself where one was made; it is nowhere else.
    """

    key: KeyView
    told: bool
    secret: str | None = None

    def __repr__(self) -> str:
        return f"Changed({self.key.id!r})"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which keys to list: in the order of their ids, from behind `after` on."""

    org: str | None = None
    plan: str | None = None
    state: str | None = None
    after: str | None = None
    limit: int = 1_000


class MintedKeys:
    """The keys of the database."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def create(self, actor: str, draft: Draft) -> Changed:
        """Make a key. Raises InvalidValue and Conflict."""
        if not is_env(draft.env):
            raise InvalidValue("an environment is 1 to 12 of a-z and 0-9", param="env")
        return await self._tenancy.finish(self._create(actor, draft))

    async def rotate(self, actor: str, reference: str, overlap_ms: int) -> Changed:
        """Make a new secret; those before it are good for the overlap. Raises NotFound and Conflict."""
        return await self._tenancy.finish(self._rotate(actor, reference, overlap_ms))

    async def revoke(self, actor: str, reference: str, *, cuts: bool = False) -> Changed:
        """Let nothing more begin with a key, ever; `cuts` ends what is under way too. Once is enough. Raises NotFound."""
        return await self._tenancy.finish(self._revoke(actor, reference, cuts=cuts))

    async def block(self, actor: str, reference: str) -> Changed:
        """Let nothing more begin with a key until it is unblocked. Raises NotFound and Conflict."""
        return await self._tenancy.finish(self._block(actor, reference, blocks=True))

    async def unblock(self, actor: str, reference: str) -> Changed:
        """Undo a block. Raises NotFound and Conflict."""
        return await self._tenancy.finish(self._block(actor, reference, blocks=False))

    async def edit(self, actor: str, reference: str, edit: Edit) -> Changed:
        """Change what a key may. Raises NotFound, Conflict, InvalidValue and Outdated."""
        return await self._tenancy.finish(self._edit(actor, reference, edit))

    async def _create(self, actor: str, draft: Draft) -> Changed:
        key_id = new_id(self._tenancy.means.chance(ID_BYTES))
        async with self._tenancy.change() as change:
            record = KeyRecord(
                id=key_id,
                name=draft.name,
                org=draft.org,
                plan=draft.plan,
                definition=msgspec.json.encode(draft.definition).decode(),
                created_unix_ms=change.now_unix_ms,
                updated_unix_ms=change.now_unix_ms,
                expires_unix_ms=draft.expires_unix_ms,
            )
            await self._check(change, record)
            await change.execute(insert(KEYS).values(**msgspec.structs.asdict(record)))
            secret = await self._add_secret(change, key_id, draft.env)
            await change.note(Act(actor, "key.create", f"key:{key_id}", msgspec.structs.asdict(draft)))
        return await self._changed(key_id, secret=secret)

    async def _rotate(self, actor: str, reference: str, overlap_ms: int) -> Changed:
        async with self._tenancy.change() as change:
            record = await self._living(change, reference)
            ends_unix_ms, env = change.now_unix_ms + overlap_ms, await self._env_of(change, record.id)
            lasts = or_(SECRETS.c.not_after_unix_ms.is_(None), SECRETS.c.not_after_unix_ms > ends_unix_ms)
            older = update(SECRETS).where(SECRETS.c.key_id == record.id, lasts)
            await change.execute(older.values(not_after_unix_ms=ends_unix_ms))
            secret = await self._add_secret(change, record.id, env)
            await self._touch(change, record)
            detail = {"overlap_ms": overlap_ms, "older_end_unix_ms": ends_unix_ms}
            await change.note(Act(actor, "key.rotate", f"key:{record.id}", detail))
        return await self._changed(record.id, secret=secret)

    async def _revoke(self, actor: str, reference: str, *, cuts: bool) -> Changed:
        async with self._tenancy.change() as change:
            record = await self._found(change, reference)
            if record.revoked_unix_ms is None:
                await self._touch(change, record, revoked_unix_ms=change.now_unix_ms)
                await change.note(Act(actor, "key.revoke", f"key:{record.id}", {"cuts": cuts}))
        return await self._changed(record.id, cuts=cuts)

    async def _block(self, actor: str, reference: str, *, blocks: bool) -> Changed:
        async with self._tenancy.change() as change:
            record = await self._living(change, reference)
            if blocks is (record.blocked_unix_ms is None):
                await self._touch(change, record, blocked_unix_ms=change.now_unix_ms if blocks else None)
                await change.note(Act(actor, "key.block" if blocks else "key.unblock", f"key:{record.id}"))
        return await self._changed(record.id)

    async def _edit(self, actor: str, reference: str, edit: Edit) -> Changed:
        asked = msgspec.structs.asdict(edit)
        expected_updated_unix_ms = asked.pop("expected_updated_unix_ms")
        wanted = {name: value for name, value in asked.items() if value is not msgspec.UNSET}
        columns = dict(wanted)
        if "definition" in wanted:
            columns["definition"] = msgspec.json.encode(wanted["definition"]).decode()
        async with self._tenancy.change() as change:
            record = await self._living(change, reference)
            check_unchanged(msgspec.structs.asdict(record), expected_updated_unix_ms)
            await self._check(change, msgspec.structs.replace(record, **columns))
            await self._touch(change, record, **columns)
            await change.note(Act(actor, "key.edit", f"key:{record.id}", wanted))
        return await self._changed(record.id)

    async def one(self, reference: str) -> KeyView:
        """Return one key. Raises NotFound."""
        rows = await self._tenancy.fetch(referred(reference))
        return (await self._views([the_one(rows, reference)]))[0]

    async def many(self, wanted: Wanted) -> list[KeyView]:
        """Return keys in the order of their ids."""
        statement = select(KEYS).order_by(KEYS.c.id).limit(wanted.limit)
        for column, value in ((KEYS.c.org, wanted.org), (KEYS.c.plan, wanted.plan)):
            if value is not None:
                statement = statement.where(column == value)
        if wanted.after is not None:
            statement = statement.where(KEYS.c.id > wanted.after)
        if wanted.state is not None:
            statement = statement.where(*_in_state(wanted.state, self._tenancy.means.unix_ms()))
        return await self._views(await self._tenancy.fetch(statement))

    async def _check(self, change: Transaction, record: KeyRecord) -> None:
        tenants = await tenants_of(change.fetch, record.org, record.plan)
        self._tenancy.rules.check(tenants, Found(key=record, tenants=tenants))
        named = select(KEYS.c.id).where(KEYS.c.org == record.org, KEYS.c.name == record.name, KEYS.c.revoked_unix_ms.is_(None))
        if taken := await change.fetch(named.where(KEYS.c.id != record.id)):
            text = f"The org '{record.org}' has a key '{record.name}' already: {taken[0]['id']}"
            raise Conflict(text, param="name")

    async def _add_secret(self, change: Transaction, key_id: str, env: str) -> str:
        means = self._tenancy.means
        secret = mint(env, key_id, means.chance(SECRET_BYTES))
        row = {"digest": digest(means.pepper, secret), "scheme": HMAC, "key_id": key_id, "display": shown(secret)}
        await change.execute(insert(SECRETS).values(**row, created_unix_ms=change.now_unix_ms))
        return secret

    async def _touch(self, change: Transaction, record: KeyRecord, **columns: Any) -> None:
        columns["updated_unix_ms"] = later(change.now_unix_ms, record.updated_unix_ms)
        await change.execute(update(KEYS).where(KEYS.c.id == record.id).values(**columns))

    async def _env_of(self, change: Transaction, key_id: str) -> str:
        """Return the environment of a key's newest secret; one from elsewhere has none."""
        of_key = select(SECRETS.c.display).where(SECRETS.c.key_id == key_id, SECRETS.c.scheme == HMAC)
        shown_ones = await change.fetch(of_key.order_by(SECRETS.c.created_unix_ms.desc()).limit(1))
        return str(shown_ones[0]["display"]).split("_")[1] if shown_ones else USUAL_ENV

    async def _found(self, change: Transaction, reference: str) -> KeyRecord:
        key_id = the_one(await change.fetch(referred(reference)), reference)["id"]
        row = await change.lock(KEYS, KEYS.c.id == key_id)
        return of_row(KeyRecord, the_one([row] if row is not None else [], reference))

    async def _living(self, change: Transaction, reference: str) -> KeyRecord:
        record = await self._found(change, reference)
        if record.revoked_unix_ms is not None:
            raise Conflict(f"The key {record.id} is revoked, which nothing undoes")
        return record

    async def _changed(self, key_id: str, *, secret: str | None = None, cuts: bool = False) -> Changed:
        told = await self._tenancy.crier.tell([key_id], cuts=cuts)
        return Changed(key=await self.one(key_id), told=told, secret=secret)

    async def _views(self, rows: Sequence[Mapping[str, Any]]) -> list[KeyView]:
        ids = [row["id"] for row in rows]
        of_keys = select(SECRETS).where(SECRETS.c.key_id.in_(ids)).order_by(SECRETS.c.created_unix_ms)
        secrets: dict[str, list[SecretView]] = {}
        for each in await self._tenancy.fetch(of_keys):
            secrets.setdefault(each["key_id"], []).append(of_row(SecretView, each))
        now_unix_ms = self._tenancy.means.unix_ms()
        return [_view(of_row(KeyRecord, row), secrets.get(row["id"], ()), now_unix_ms) for row in rows]


def _view(record: KeyRecord, secrets: Sequence[SecretView], now_unix_ms: int) -> KeyView:
    fields = msgspec.structs.asdict(record)
    try:
        fields["definition"], state = msgspec.json.decode(record.definition, type=dict[str, Any]), state_of(record, now_unix_ms)
    except msgspec.DecodeError:
        fields["definition"], state = {}, DAMAGED
    return KeyView(**fields, state=state, secrets=tuple(secrets))


def _in_state(state: str, now_unix_ms: int) -> tuple[Any, ...]:
    """Return what holds of the keys in a state. Raises InvalidValue."""
    lives, free = KEYS.c.revoked_unix_ms.is_(None), KEYS.c.blocked_unix_ms.is_(None)
    ended = KEYS.c.expires_unix_ms <= now_unix_ms
    endless = or_(KEYS.c.expires_unix_ms.is_(None), KEYS.c.expires_unix_ms > now_unix_ms)
    found = {"revoked": (~lives,), "blocked": (lives, ~free), "expired": (lives, free, ended), "active": (lives, free, endless)}
    if state not in found:
        raise InvalidValue("a key is active, blocked, expired or revoked", param="state")
    return found[state]
