"""The keys of the database that a worker has met lately, and how long it may go by what it was told of them.

An entry is good for a time, and only while nothing has changed: every change of a key has a number in the admission store, the
epoch, that comes with each grant and each tick. One that differs from the last outdates all entries at once; a message that names
the key takes out that key's alone. What was outdated can still be gone by where nobody can be asked. Seconds of any one clock,
which is passed in. Pure.
"""

from collections import OrderedDict

import msgspec

from gateway.policy.tenancy import Bearer

KNOWN_S = 30.0
"""How long an answer that names a key is good where no change is heard of: the bound on a revocation without the store."""

UNKNOWN_S = 5.0
"""How long an answer that names none is good: a key that was tried before it was made works soon after."""

LONGEST_S = 900.0
"""How old an answer may be that is gone by where nobody can be asked."""

MOST_KNOWN, MOST_UNKNOWN = 100_000, 10_000
"""How many entries of either kind are kept; the one that was not used for longest goes first."""

Mark = tuple[int, int]
"""What had changed when somebody began to ask."""


class Entry(msgspec.Struct):
    """What was said of a digest: the key, or None where there is none that may enter."""

    bearer: Bearer | None
    asked_s: float
    mark: Mark
    taken_out: bool = False
    """It is in the ring no more: whoever goes by it has to ask again."""
    noted_s: float = -LONGEST_S
    """When it was noted last that the key is in use."""
    meaning: int = 0
    """By which of the configurations that followed each other it says what the key means."""


class Keyring:
    """Entries by digest, and what has changed since."""

    def __init__(self, most_known: int = MOST_KNOWN, most_unknown: int = MOST_UNKNOWN) -> None:
        self._known = OrderedDict[bytes, Entry]()
        self._unknown = OrderedDict[bytes, Entry]()
        self._digests: dict[str, set[bytes]] = {}
        """Of what is known, by the key's id."""
        self._most_known, self._most_unknown = most_known, most_unknown
        self._epoch: int | None = None
        """The last change that was heard of."""
        self._shown: int | None = None
        """The epoch that the store showed last; messages may be ahead of it."""
        self._changes = 0
        """How many changes were heard of whose key is not known."""
        self._taken_out = 0
        """How many were heard of whose key is."""

    def __len__(self) -> int:
        return len(self._known) + len(self._unknown)

    @property
    def mark(self) -> Mark:
        """Return what has changed up to now: an answer is kept under what it was asked at."""
        return self._changes, self._taken_out

    def find(self, digest: bytes, now_s: float) -> Entry | None:
        """Return what is good now."""
        entry = self._known.get(digest)
        if entry is not None:
            self._known.move_to_end(digest)
            return entry if self.stands(entry) and now_s < entry.asked_s + KNOWN_S else None
        entry = self._unknown.get(digest)
        return entry if entry is not None and self.stands(entry) and now_s < entry.asked_s + UNKNOWN_S else None

    def last(self, digest: bytes, now_s: float) -> Entry | None:
        """Return what named a key last, however much may have changed: for when nobody can be asked."""
        entry = self._known.get(digest)
        return entry if entry is not None and now_s < entry.asked_s + LONGEST_S else None

    def keep(self, digest: bytes, entry: Entry) -> None:
        """Keep what was said, unless something has changed since it was asked for: then whoever asked has to ask again."""
        self._forget(digest)
        self._unknown.pop(digest, None)
        if entry.mark != self.mark:
            entry.taken_out = True
        elif entry.bearer is None:
            self._unknown[digest] = entry
            if len(self._unknown) > self._most_unknown:
                self._unknown.popitem(last=False)
        else:
            self._known[digest] = entry
            self._digests.setdefault(entry.bearer[0].key.id, set()).add(digest)
            if len(self._known) > self._most_known:
                self._forget(next(iter(self._known)))

    def stands(self, entry: Entry) -> bool:
        """Return whether nothing is known to have changed since the entry was asked for."""
        return not entry.taken_out and entry.mark[0] == self._changes

    def hear(self, epoch: int | None) -> None:
        """Take note of the epoch that the store shows, None where it is not known: one that is news outdates all entries."""
        if epoch is None or epoch == self._shown:
            return
        self._shown = epoch
        if epoch != self._epoch:
            self._epoch = epoch
            self._changes += 1

    def outdate(self, epoch: int) -> None:
        """Take note of a message that this change may be any key's business."""
        self._changes += 1
        self._follow(epoch)

    def take_out(self, key_id: str, epoch: int) -> None:
        """Take note of a message that this change is one key's: its entries are forgotten, and those that name nobody."""
        self._taken_out += 1
        for digest in [*self._digests.get(key_id, ())]:
            self._forget(digest)
        self._unknown.clear()
        self._follow(epoch)

    def _forget(self, digest: bytes) -> None:
        entry = self._known.pop(digest, None)
        if entry is None or entry.bearer is None:
            return
        # Whoever still goes by it would not hear of what is told of its key from now on.
        entry.taken_out = True
        key_id = entry.bearer[0].key.id
        self._digests[key_id].discard(digest)
        if not self._digests[key_id]:
            del self._digests[key_id]

    def _follow(self, epoch: int) -> None:
        if self._epoch is not None and epoch == self._epoch + 1:
            self._epoch = epoch
