"""Keys over the admin API: those of the database are made, changed, rotated, blocked and revoked; those of the file are shown.

A secret is in one answer alone, that of the request which made it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, Router, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from gateway.errors import Conflict, NotFound, Outdated
from gateway.stores.minted import Changed, Draft, Edit, KeyView, MintedKeys, Wanted
from gateway.web.gate import Asked, Role
from gateway.web.preconditions import etag, expected_unix_ms
from gateway.web.told import errors

MOST_KEYS = 1_000
"""Of one page."""

FILE = "file"
"""The source of a key that the configuration file declares."""

DAY_MS = 86_400_000
LONGEST_OVERLAP_MS = 366 * DAY_MS
TRIES = 5
"""How often a change is made anew whose sender does not mind what it changes, when others change the same thing meanwhile."""

State = Literal["active", "blocked", "expired", "revoked"]
UnixMs = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class KeyPage(msgspec.Struct, frozen=True):
    """Keys; `next` is the `after` of the page behind it, null on the last one."""

    data: list[KeyView]
    next: str | None


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made. `definition` is what the configuration file would say of it besides: `limits`, `models`, `ips`…"""

    name: str
    org: str = "default"
    plan: str | None = None
    definition: dict[str, Any] = {}
    expires_unix_ms: UnixMs | None = None
    env: str = "live"


class KeyChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be different of a key. `definition` is merged into what there is (RFC 7396): null takes a field away."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    plan: str | msgspec.UnsetType | None = msgspec.UNSET
    definition: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    expires_unix_ms: UnixMs | msgspec.UnsetType | None = msgspec.UNSET


class Rotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the secrets before are good beside the new one."""

    overlap_ms: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_OVERLAP_MS)] = DAY_MS


class Revocation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether what is under way ends too."""

    now: bool = False


class ChangedKey(KeyView, frozen=True, kw_only=True):
    """A key after its change. `told` false: gateways learn of it within 30 s; the same change again tells them."""

    told: bool


class MadeKey(ChangedKey, frozen=True, kw_only=True):
    """A key that was made or rotated, with its new secret, this once."""

    key: str


class AdminKeys:
    """The keys of the database, and beside them those of the file, in the order of their names."""

    def __init__(self, minted: MintedKeys, declared: Callable[[], Sequence[KeyView]]) -> None:
        self._minted = minted
        self._declared = declared

    async def page(self, wanted: Wanted) -> KeyPage:
        """Return keys of the file, then those of the database, from behind `after` on."""
        found, after = self._of_file(wanted), wanted.after
        if len(found) <= wanted.limit:
            behind = None if after in self._names() else after
            rest = msgspec.structs.replace(wanted, after=behind, limit=wanted.limit + 1 - len(found))
            found += await self._minted.many(rest)
        shown = found[: wanted.limit]
        return KeyPage(shown, shown[-1].id if len(found) > len(shown) else None)

    async def one(self, reference: str) -> KeyView:
        """Return one key. Raises NotFound and InvalidValue."""
        try:
            return await self._minted.one(reference)
        except NotFound:
            if reference in (declared := self._names()):
                return declared[reference]
            raise

    async def named(self, reference: str) -> str:
        """Return the id of a key that may be changed. Raises NotFound, InvalidValue and Conflict."""
        found = await self.one(reference)
        if found.source == FILE:
            raise Conflict(f"The key '{found.id}' is declared in the configuration file: change it there")
        return found.id

    async def change(self, actor: str, reference: str, change: KeyChange, expected: int | None) -> Changed:
        """Change a key. Raises NotFound, Conflict, InvalidValue and Outdated."""
        key_id = await self.named(reference)
        for _ in range(TRIES):
            now = await self._minted.one(key_id)
            try:
                return await self._minted.edit(actor, key_id, edit_of(now, change, expected))
            except Outdated:
                if expected is not None:
                    raise
        raise Outdated("It is changed all the time: look at it again")

    def _of_file(self, wanted: Wanted) -> list[KeyView]:
        declared, after = self._names(), wanted.after
        if after is not None and after not in declared:
            return []
        fields = ("org", "plan", "state")
        return [
            key
            for name, key in declared.items()
            if (after is None or name > after) and all(getattr(wanted, each) in (None, getattr(key, each)) for each in fields)
        ]

    def _names(self) -> Mapping[str, KeyView]:
        return {key.name: key for key in sorted(self._declared(), key=lambda key: key.name)}


def edit_of(key: KeyView, change: KeyChange, expected_unix_ms: int | None) -> Edit:
    """Return a change as the store makes it, of this state of the key where it is merged into it."""
    merges = change.definition is not msgspec.UNSET
    return Edit(
        name=change.name,
        plan=change.plan,
        definition=msgspec.UNSET if change.definition is msgspec.UNSET else merged(key.definition, change.definition),
        expires_unix_ms=change.expires_unix_ms,
        expected_updated_unix_ms=key.updated_unix_ms if merges and expected_unix_ms is None else expected_unix_ms,
    )


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with a merge patch in it (RFC 7396)."""
    found = {name: value for name, value in base.items() if change.get(name, ...) is not None}
    for name, value in change.items():
        if isinstance(value, dict):
            before = base.get(name)
            found[name] = merged(before if isinstance(before, dict) else {}, value)
        elif value is not None:
            found[name] = value
    return found


def made(changed: Changed, *, status_code: int) -> Response[MadeKey]:
    """Return the answer that has a secret."""
    fields = msgspec.structs.asdict(changed.key)
    body = MadeKey(**fields, told=changed.told, key=changed.secret or "")
    return Response(body, status_code=status_code, headers=etag(changed.key.updated_unix_ms))


def done(changed: Changed) -> Response[ChangedKey]:
    """Return the answer to any other change."""
    body = ChangedKey(**msgspec.structs.asdict(changed.key), told=changed.told)
    return Response(body, headers=etag(changed.key.updated_unix_ms))


def keys_router(keys: AdminKeys, minted: MintedKeys) -> Router:
    """Return the routes under /admin/keys. A key is named by its id, or by its name where that is one key's."""

    @get("/", summary="List keys, never their secrets", responses=errors())
    async def list_keys(
        *,
        org: Annotated[str | None, QueryParameter(description="Of this org alone")] = None,
        plan: Annotated[str | None, QueryParameter(description="Of this plan alone, named by the key itself")] = None,
        in_state: Annotated[State | None, QueryParameter(name="state", description="In this state alone")] = None,
        after: Annotated[str | None, QueryParameter(description="From behind this id on")] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_KEYS)] = 100,
    ) -> KeyPage:
        """Return a page of keys: those of the configuration file by their names, then those of the database by their ids."""
        return await keys.page(Wanted(org=org, plan=plan, state=in_state, after=after, limit=limit))

    @post("/", summary="Make a key", least=Role.OPERATOR, responses=errors(409, changes=True))
    async def create(request: Asked, data: JSONBody[NewKey]) -> Response[MadeKey]:
        """Make a key and return its secret, this once."""
        return made(await minted.create(request.user.name, Draft(**msgspec.structs.asdict(data))), status_code=201)

    @get("/{key:str}", summary="Show one key", responses=errors(404))
    async def show(key: FromPath[str]) -> Response[KeyView]:
        """Return all that is kept of a key but its secrets; its ETag names its state."""
        found = await keys.one(key)
        return Response(found, headers=etag(found.updated_unix_ms))

    @patch("/{key:str}", summary="Change a key", least=Role.OPERATOR, responses=errors(404, 409, 412, changes=True))
    async def change(request: Asked, key: FromPath[str], data: JSONBody[KeyChange]) -> Response[ChangedKey]:
        """Change a key's name, plan, end or definition; with If-Match only if nobody has changed it since."""
        return done(await keys.change(request.user.name, key, data, expected_unix_ms(request)))

    return Router("/keys", route_handlers=[list_keys, create, show, change, *work(keys, minted)])


def work(keys: AdminKeys, minted: MintedKeys) -> Sequence[Any]:
    """Return the routes of what is done to one key."""
    told = errors(404, 409, changes=True)

    @post("/{key:str}/rotate", summary="Give a key a new secret", status_code=200, least=Role.OPERATOR, responses=told)
    async def rotate(request: Asked, key: FromPath[str], data: JSONBody[Rotation | None] = None) -> Response[MadeKey]:
        """Return the new secret, this once; those before it stay good for the overlap, a day unless it is said."""
        overlap_ms = (data or Rotation()).overlap_ms
        return made(await minted.rotate(request.user.name, await keys.named(key), overlap_ms), status_code=200)

    @post("/{key:str}/revoke", summary="Let nothing more begin with a key", status_code=200, least=Role.OPERATOR, responses=told)
    async def revoke(request: Asked, key: FromPath[str], data: JSONBody[Revocation | None] = None) -> Response[ChangedKey]:
        """Revoke a key for ever; `now` ends what is under way too."""
        cuts = (data or Revocation()).now
        return done(await minted.revoke(request.user.name, await keys.named(key), cuts=cuts))

    @post("/{key:str}/block", summary="Block a key", status_code=200, least=Role.OPERATOR, responses=told)
    async def block(request: Asked, key: FromPath[str]) -> Response[ChangedKey]:
        """Let nothing more begin with a key until it is unblocked."""
        return done(await minted.block(request.user.name, await keys.named(key)))

    @post("/{key:str}/unblock", summary="Undo a block", status_code=200, least=Role.OPERATOR, responses=told)
    async def unblock(request: Asked, key: FromPath[str]) -> Response[ChangedKey]:
        """Let a blocked key be used again."""
        return done(await minted.unblock(request.user.name, await keys.named(key)))

    return rotate, revoke, block, unblock
