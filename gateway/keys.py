"""Who a request comes from: keys of the file, else those of the database, which a worker remembers for a while.

One way leads from a secret to its key: the file's keys by digest, the ring of those that were met lately, then the database,
which one request asks for all that bring the same key. Whoever is known is told at once, without a wait. While the database is
away the keys that were met before are gone by, and others can neither be let in nor be called wrong. Seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import structlog
from msgspec.structs import replace

from gateway.admission.changes import ALL_KEYS, Change
from gateway.errors import AuthUnavailable, Unauthenticated
from gateway.policy.catalogue import Catalogue, Key
from gateway.policy.credentials import digest, plain_digest
from gateway.policy.keyring import Entry, Keyring
from gateway.policy.keys import INCORRECT, Headers, check_key, secret_of
from gateway.policy.minting import is_garbled
from gateway.policy.tenancy import Bearer, Found, may_enter
from gateway.stores.keys import LookUpError
from gateway.tasks import Owned

LOOK_UP_S = 2.0
"""How long the database may take to tell who a key is."""

REST_S = 1.0
"""How long a database that did not answer is left alone."""

MOST_LOOK_UPS = 64
"""How many keys are asked about at once: a flood of guesses waits for nobody and keeps nobody waiting."""

NOTED_EVERY_S = 60.0
"""How often it is noted that a key is in use, at most."""

TELL_EVERY_S = 10.0
"""How often the database hears which keys are in use."""

log = structlog.get_logger(__name__)


class Shelf(Protocol):
    """The database, as far as requests ask it."""

    async def find(self, digests: Sequence[bytes]) -> Found | None:
        """Return whose secret has one of these digests. Raises LookUpError."""
        ...

    async def note_use(self, used_unix_ms: Mapping[str, int]) -> None:
        """Write down when keys were used last, by their ids. Raises LookUpError."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class Sources(msgspec.Struct, frozen=True):
    """What is asked about keys: the database, what its word of a key means, and how many changes the store has counted."""

    shelf: Shelf
    mean: Callable[[Found], Key]
    epoch: Callable[[], int | None]


class Clock(msgspec.Struct, frozen=True):
    """Time, as the root hands it in."""

    now_s: Callable[[], float]
    unix_ms: Callable[[], int]


class Claim(msgspec.Struct, frozen=True):
    """A key that is not the file's, as it was shown: what it may be known by, and where it came from."""

    digests: tuple[bytes, bytes]
    address: str | None


class Principal:
    """Who asks. A key of the file is as it is; one of the database may have been changed since it was asked about."""

    __slots__ = ("_claim", "_entry", "_keys", "key")

    def __init__(self, key: Key, keys: "Keys | None" = None, claim: Claim | None = None, entry: Entry | None = None) -> None:
        self.key = key
        self._keys = keys
        self._claim = claim
        self._entry = entry

    @property
    def stands(self) -> bool:
        """Return whether no change is known of since it was asked about."""
        return self._keys is None or self._entry is None or self._keys.stands(self._entry)

    async def ask_again(self) -> None:
        """Ask whether the key may still enter. Raises `GatewayError` (401, 403, 503)."""
        if self._keys is not None and self._claim is not None:
            self._entry = await self._keys.entry(self._claim)
            self._keys.check(self._entry, self._claim)


Authenticate = Callable[[Catalogue, Headers, str | None], Principal | Awaitable[Principal]]
"""Turns a request's head into who asks, at once where that is known. Raises `GatewayError` (400, 401, 403, 503)."""


class Keys:
    """The keys that may enter here."""

    def __init__(self, pepper: bytes, sources: Sources, clock: Clock, owned: Owned) -> None:
        self._pepper = pepper
        self._sources = sources
        self._clock = clock
        self._owned = owned
        self._ring = Keyring()
        self._editions = self._meaning = 0
        self._asking: dict[bytes, asyncio.Task[Entry]] = {}
        self._is_away = False
        """The database did not answer when it was asked last."""
        self._unreadable: set[str] = set()
        """Keys that mean nothing: damaged ones, and those whose plan or org is nowhere any more."""
        self._rests_until_s = 0.0
        self._used_unix_ms: dict[str, int] = {}
        self._loops: list[asyncio.Task[None]] = []
        self.look_ups = 0
        """How often the database was asked."""

    def authenticate(self, catalogue: Catalogue, headers: Headers, address: str | None) -> Principal | Awaitable[Principal]:
        """Return who asks, now where it is known; an `Authenticate`."""
        secret = secret_of(headers)
        known_by = digest(self._pepper, secret)
        key = catalogue.keys.get(known_by)
        if key is not None:
            check_key(key, address, self._clock.unix_ms() / 1000)
            return Principal(key)
        if is_garbled(secret):
            raise Unauthenticated(INCORRECT)
        claim = Claim((known_by, plain_digest(secret)), address)
        entry = self._known(claim)
        return self._asked(claim) if entry is None else self._admitted(claim, entry)

    def stands(self, entry: Entry) -> bool:
        """Return whether no change is known of since this was said."""
        self._ring.hear(self._sources.epoch())
        return self._ring.stands(entry)

    def check(self, entry: Entry, claim: Claim) -> Bearer:
        """Return whose key it is. Raises `Unauthenticated` and `IpNotAllowed`."""
        if entry.bearer is None:
            raise Unauthenticated(INCORRECT)
        if entry.meaning != self._meaning:
            entry.bearer, entry.meaning = self._meant(entry.bearer[0]), self._meaning
        check_key(entry.bearer[1], claim.address, self._clock.unix_ms() / 1000)
        return entry.bearer

    def renew(self) -> None:
        """Ask anew what each key means when it is next met: the configuration beside it is another one."""
        self._meaning += 1

    def heed(self, change: Change) -> None:
        """Forget what was changed."""
        if change.key_id == ALL_KEYS:
            self._ring.outdate(change.epoch)
        else:
            self._ring.take_out(change.key_id, change.epoch)

    async def entry(self, claim: Claim) -> Entry:
        """Return what is known now. Raises `AuthUnavailable`."""
        known, digests = self._known(claim), claim.digests
        if known is not None:
            return known
        asking = self._asking.get(digests[0])
        if asking is None:
            now_s = self._clock.now_s()
            if now_s < self._rests_until_s or (self._is_away and self._asking) or len(self._asking) >= MOST_LOOK_UPS:
                return known_or_unavailable(self._ring.last(digests[0], now_s))
            asking = self._asking[digests[0]] = self._owned.spawn(self._look_up(digests), name="key look-up")
            asking.add_done_callback(lambda task: self._asked_about(digests[0], task))
        return await asyncio.shield(asking)

    def start(self, heeding: Coroutine[Any, Any, None]) -> None:
        """Begin to hear of changes, by `heeding`, and to tell the database which keys are in use."""
        self._loops = [self._owned.spawn(heeding, name="key changes"), self._owned.spawn(self._tell_uses(), name="key uses")]

    async def stop(self) -> None:
        """End both, and tell the database for the last time."""
        for loop in self._loops:
            loop.cancel()
        if self._loops:
            await asyncio.wait(self._loops)
        await self.tell_uses()
        await self._sources.shelf.close()

    async def tell_uses(self) -> None:
        """Tell the database which keys were in use; what it does not take is told again, or overtaken."""
        used, self._used_unix_ms = self._used_unix_ms, {}
        try:
            if used:
                await self._sources.shelf.note_use(used)
        except LookUpError:
            self._used_unix_ms = {**used, **self._used_unix_ms}

    def _known(self, claim: Claim) -> Entry | None:
        self._ring.hear(self._sources.epoch())
        return self._ring.find(claim.digests[0], self._clock.now_s())

    async def _asked(self, claim: Claim) -> Principal:
        return self._admitted(claim, await self.entry(claim))

    def _admitted(self, claim: Claim, entry: Entry) -> Principal:
        found, key = self.check(entry, claim)
        now_s = self._clock.now_s()
        if now_s >= entry.noted_s + NOTED_EVERY_S:
            entry.noted_s, self._used_unix_ms[found.key.id] = now_s, self._clock.unix_ms()
        return Principal(key, self, claim, entry)

    async def _look_up(self, digests: Sequence[bytes]) -> Entry:
        ring, known_by, asked_s = self._ring, digests[0], self._clock.now_s()
        last, mark = ring.last(known_by, asked_s), ring.mark
        self.look_ups += 1
        try:
            async with asyncio.timeout(LOOK_UP_S):
                found = await self._sources.shelf.find(digests)
        except (LookUpError, TimeoutError):
            self._rests_until_s = self._clock.now_s() + REST_S
            if not self._is_away:
                log.exception("keys_unavailable")
            self._is_away = True
            return known_or_unavailable(last)
        if self._is_away:
            log.info("keys_available_again")
        self._is_away = False
        entry = Entry(self._bearer(found, last), asked_s, mark, meaning=self._meaning)
        if last is not None:
            entry.noted_s = last.noted_s
        ring.keep(known_by, entry)
        return entry

    def _bearer(self, found: Found | None, last: Entry | None) -> Bearer | None:
        if found is None or not may_enter(found.key):
            return None
        if last is not None and last.bearer is not None and last.meaning == self._meaning and found.is_of(last.bearer[0]):
            return found, last.bearer[1]
        return self._meant(found)

    def _meant(self, found: Found) -> Bearer:
        try:
            key = self._sources.mean(found)
        except ValueError as error:
            if found.key.id not in self._unreadable:  # the log hears of it once
                self._unreadable.add(found.key.id)
                log.exception("key_unreadable", key=found.key.id)
            raise unavailable() from error
        self._unreadable.discard(found.key.id)
        self._editions += 1
        return found, replace(key, edition=self._editions, expires_at_s=found.ends_unix_s())

    def _asked_about(self, known_by: bytes, task: asyncio.Task[Entry]) -> None:
        del self._asking[known_by]
        # Whoever waits has the error too, but they may all have left.
        if not task.cancelled():
            task.exception()

    async def _tell_uses(self) -> None:
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            await self.tell_uses()


def known_or_unavailable(last: Entry | None) -> Entry:
    """Return what was known last. Raises `AuthUnavailable` where that is nothing."""
    if last is None:
        raise unavailable()
    return last


def unavailable() -> AuthUnavailable:
    """Return the error of a key that nobody can tell the owner of, or what it may do."""
    return AuthUnavailable("The gateway cannot check API keys at the moment", retry_after_ms=round(1000 * REST_S))
