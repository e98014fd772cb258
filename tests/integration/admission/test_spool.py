"""What the store has not heard yet is on disk, whatever becomes of the worker, and is told once."""

import asyncio
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable, Connection
from gateway.admission.failover import Failover
from gateway.admission.local import Local
from gateway.admission.replay import Replay
from gateway.admission.spool import Entry, Spool, entries, left_behind
from gateway.alerts import Alerts
from gateway.books import PATIENCE_S, Bookkeeper
from gateway.policy.admission import Acquire, Adopt, Lesson, Row, Upstream
from gateway.policy.answers import Granted
from gateway.policy.catalogue import Dynamic, Limits, Tier
from gateway.policy.experience import Experience
from gateway.policy.record import Record
from gateway.tasks import Owned
from gateway.telemetry.cells import Cells
from gateway.telemetry.labels import Labels
from tests.integration.admission.rows import TTL_MS, Clock, deployment_charges, estimate, key_charges, settle
from tests.integration.admission.state import ask, ledger

RATES = key_charges(Limits(rpm=3, tpm=900, dynamic=Dynamic(window_ms=1_000, ceiling_milli=2_000)))
SLOT = deployment_charges("a/one", Limits(concurrency=1))
MOST_BYTES = 1 << 20
STEPS = ("granted", "ended", "adopted", "told", "left")


def row() -> Row:
    return Row(Upstream("a/one", "sk", 1), "a", Tier.DEFAULT, RATES + SLOT, estimate(), "a")


def lease(request_id: str) -> Adopt:
    return Adopt(request_id, row(), TTL_MS, b"\x00opened " + request_id.encode())


def step(spool: Spool, told: dict[str, Entry], kind: str, request_id: str) -> None:
    """Do one thing with a spool, and with what it is to tell."""
    known = told.get(request_id)
    match kind:
        case "granted" if known is None or known.end is None:
            spool.granted(lease(request_id))
            told[request_id] = Entry(request_id, lease(request_id))
        case "ended" if known is None or known.end is None:
            spool.ended(settle(request_id))
            told[request_id] = Entry(request_id, None if known is None else known.lease, settle(request_id))
        case "adopted":
            spool.adopted(request_id)
            if known is not None and known.end is None:
                del told[request_id]
        case "told":
            spool.told(request_id)
            told.pop(request_id, None)
        case "left":
            assert spool.leave(request_id) == (known is not None and known.end is not None)
        case _:
            pass


def found(path: Path) -> dict[str, Entry]:
    return {entry.id: entry for entry in entries(path)} if path.exists() else {}


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from("abc"))))
def test_a_file_tells_what_the_store_has_not_heard_after_every_line(steps: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as directory:
        spool = Spool(Path(directory) / "own.ndjson", MOST_BYTES)
        told: dict[str, Entry] = {}
        for kind, request_id in steps:
            step(spool, told, kind, request_id)
            assert found(spool.path) == told
            assert spool.left <= {entry.id for entry in told.values() if entry.end is not None}
            assert spool.size_bytes == (spool.path.stat().st_size if spool.path.exists() else 0)
            assert bool(told) == bool(spool.size_bytes)
        spool.close()
        assert [*Path(directory).iterdir()] == ([spool.path] if told else []), "a file is left to tell, not to be tidied up"


def test_a_busy_worker_gives_back_what_is_told_file_by_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "own.ndjson", MOST_BYTES, file_bytes=1)
    for request_id in "abc":
        spool.granted(lease(request_id))
    for request_id in "abc":
        spool.ended(settle(request_id))
    assert [path.name for path in spool.paths] == ["own.ndjson", "own-1.ndjson", "own-2.ndjson"]
    assert [[entry.id for entry in entries(path)] for path in spool.paths] == [["a"], ["b"], ["c"]], "a request is in one file"
    assert [*left_behind(tmp_path / "another.ndjson")] == [], "all of them are its own"
    spool.told("b")
    assert [path.name for path in spool.paths] == ["own.ndjson", "own-2.ndjson"]
    spool.told("c")
    spool.told("a")
    assert [path.name for path in tmp_path.iterdir()] == ["own-2.ndjson"]
    assert spool.size_bytes == 0
    spool.close()
    assert [*tmp_path.iterdir()] == []


async def test_who_waits_for_the_disk_at_one_time_shares_a_round(spool: Spool) -> None:
    async def end(request_id: str) -> bool:
        spool.ended(settle(request_id))
        return await spool.on_disk()

    callers = [asyncio.create_task(end(str(number))) for number in range(50)]
    await asyncio.sleep(0)
    assert len(spool._rounds) == 1
    assert all(await asyncio.gather(*callers))
    assert not spool._dirty


async def test_who_comes_while_a_round_is_under_way_waits_for_the_next(spool: Spool) -> None:
    spool.ended(settle("first"))
    first = asyncio.create_task(spool.on_disk())
    while spool._dirty:
        await asyncio.sleep(0)
    spool.ended(settle("second"))
    assert await spool.on_disk()
    assert first.done()
    assert not spool._dirty


def test_a_last_line_that_was_cut_takes_no_other_with_it(spool: Spool) -> None:
    spool.granted(lease("first"))
    whole = spool.size_bytes
    spool.ended(settle("first"))
    text = spool.path.read_bytes()
    for length in range(whole, len(text)):
        spool.path.write_bytes(text[:length])
        assert [*entries(spool.path)] == [Entry("first", lease("first"))]


def test_everything_of_a_settlement_comes_back(spool: Spool) -> None:
    end = settle("mine", estimate(7, 9), capacity=True, certain=False)
    end = type(end)(end.id, end.capacity, end.actual, b"\xff\x00", end.certain, end.ending, Lesson("acme", "a", 250_000, 9))
    spool.ended(end)
    assert [*entries(spool.path)] == [Entry("mine", end=end)]


@contextmanager
def no_file_longer_than(size_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_takes_half_a_line_keeps_none_of_it(spool: Spool) -> None:
    spool.granted(lease("first"))
    with no_file_longer_than(spool.size_bytes + 10):
        spool.granted(lease("second"))
        spool.granted(lease("third"))
        was_full = spool.full
    assert was_full
    assert [entry.id for entry in entries(spool.path)] == ["first"]
    spool.told("first")
    assert not spool.full
    spool.granted(lease("fourth"))
    assert [entry.id for entry in entries(spool.path)] == ["fourth"]


async def test_a_spool_without_room_looks_for_it_until_there_is_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.admission.spool.SYNC_S", 0.01)
    (tmp_path / "spool").write_text("in its way")
    spool = Spool(tmp_path / "spool" / "own.ndjson", MOST_BYTES)
    spool.ended(settle("mine"))
    keeping = asyncio.create_task(spool.keep())
    await asyncio.sleep(0.05)
    was_full = spool.full
    (tmp_path / "spool").unlink()
    async with asyncio.timeout(5.0):
        while spool.full:
            await asyncio.sleep(0.01)
    assert was_full, "nothing is to be granted on the chance that there is room again"
    assert spool.size_bytes == 0
    keeping.cancel()
    spool.close()
    assert [*(tmp_path / "spool").iterdir()] == []


def test_a_file_that_cannot_be_made_is_a_full_one(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in its way")
    spool = Spool(tmp_path / "spool" / "own.ndjson", MOST_BYTES)
    spool.ended(settle("mine"))
    assert spool.full
    assert not spool.leave("mine")
    spool.close()


def test_a_file_is_its_process_s_as_long_as_it_lives(tmp_path: Path) -> None:
    other, own = Spool(tmp_path / "other.ndjson", MOST_BYTES), tmp_path / "own.ndjson"
    other.granted(lease("its"))
    assert [*left_behind(own)] == []
    assert other.path.stat().st_mode & 0o777 == 0o600
    other.close()
    assert [*left_behind(own)] == [other.path]


async def alone(failover: Failover, connection: Connection) -> None:
    await connection.close()
    for _ in range(3):
        with pytest.raises(AdmissionUnavailable):
            await failover.tick("w1", ())
    assert failover.alone


async def back(failover: Failover, connection: Connection) -> None:
    assert await connection.open()
    await failover.tick("w1", ())
    assert not failover.alone


async def test_a_spool_that_is_full_has_a_worker_refuse(
    admission: Admission, connection: Connection, clock: Clock, spool: Spool
) -> None:
    failover = Failover(admission, Local(clock), Spool(spool.path, 1))
    await alone(failover, connection)
    assert isinstance(await failover.acquire(Acquire("first", (row(),), TTL_MS, b"")), Granted)
    with pytest.raises(AdmissionUnavailable):
        await failover.acquire(Acquire("second", (row(),), TTL_MS, b""))


async def test_a_durable_end_is_on_disk_until_the_store_is_sure_to_have_it(
    admission: Admission, connection: Connection, spool: Spool
) -> None:
    failover = Failover(admission, None, spool, durable=True)
    assert isinstance(await failover.acquire(Acquire("mine", (row(),), TTL_MS, b"opened")), Granted)
    await failover.secure(lambda: settle("mine"))
    assert [entry.id for entry in entries(spool.path)] == ["mine"]
    await failover.settle(settle("mine"))
    await failover.tick("w1", ())
    assert [entry.id for entry in entries(spool.path)] == ["mine"], "the store may be killed now, and forget it"
    failover.forget()
    assert spool.size_bytes == 0
    assert await ledger(connection) == [("open", "mine"), ("close", "mine")]


async def test_nothing_is_granted_that_could_not_be_written_down(admission: Admission, spool: Spool) -> None:
    full = Spool(spool.path, 1)
    failover = Failover(admission, None, full, durable=True)
    assert isinstance(await failover.acquire(Acquire("first", (row(),), TTL_MS, b"")), Granted)
    await failover.secure(lambda: settle("first"))
    with pytest.raises(AdmissionUnavailable):
        await failover.acquire(Acquire("second", (row(),), TTL_MS, b""))
    await failover.settle(settle("first"))
    failover.forget()
    assert isinstance(await failover.acquire(Acquire("second", (row(),), TTL_MS, b"")), Granted)
    full.close()


async def test_a_store_that_was_lost_is_told_again_what_it_took_note_of_a_moment_before(
    admission: Admission, connection: Connection, spool: Spool
) -> None:
    failover = Failover(admission, None, spool)
    for request_id in "ab":
        assert isinstance(await failover.acquire(Acquire(request_id, (row(),), TTL_MS, b"opened")), Granted)
        await failover.settle(settle(request_id))
    await ask(connection, "FLUSHALL")  # what its file had not
    await connection.close()
    assert await connection.open()
    await failover.tick("w1", ())
    assert sorted(await ledger(connection)) == [("close", "a"), ("close", "b")]
    await failover.tick("w1", ())
    assert len(await ledger(connection)) == 2, "once"


async def test_what_a_dead_worker_granted_is_told_by_the_next(
    admission: Admission, connection: Connection, clock: Clock, spool: Spool
) -> None:
    dead = Spool(spool.path.with_name("dead.ndjson"), MOST_BYTES)
    failover = Failover(admission, Local(clock), dead)
    await alone(failover, connection)
    for request_id in ("ended", "running"):
        assert isinstance(await failover.acquire(Acquire(request_id, (row(),), TTL_MS, b"opened")), Granted)
        if request_id == "ended":
            with pytest.raises(AdmissionUnavailable):
                await failover.settle(settle("ended"))
    dead.close()
    again = dead.path.with_name("again.ndjson")
    again.write_bytes(dead.path.read_bytes())
    heir = Failover(admission, Local(clock), spool)
    await back(heir, connection)
    await Replay(heir).tell_left_behind()
    assert not [*spool.path.parent.glob("*.ndjson")]
    assert await ledger(connection) == [("open", "ended"), ("open", "running"), ("close", "ended")], "once, of two files"
    clock.now_ms += TTL_MS + 1
    await heir.tick("w1", ())
    assert (await ledger(connection))[-1] == ("abandoned", "running")


async def test_what_cannot_be_read_is_kept_for_a_human_being(
    admission: Admission, connection: Connection, clock: Clock, spool: Spool
) -> None:
    dead = Spool(spool.path.with_name("dead.ndjson"), MOST_BYTES)
    dead.granted(lease("its"))
    dead.close()
    with dead.path.open("ab") as file:
        file.write(b'{"id": 1}\n')
    await Replay(Failover(admission, Local(clock), spool)).tell_left_behind()
    assert [path.name for path in spool.path.parent.iterdir()] == ["dead.unreadable"]
    assert await ledger(connection) == []


class Nobody:
    """Who is told of no record."""

    def begin(self, record: Record, fields: Mapping[bytes, bytes]) -> None:
        pass

    def observe(self, record: Record) -> None:
        pass


async def test_what_was_tried_long_enough_is_left_to_the_spool_and_told_once_the_store_is_back(
    admission: Admission, connection: Connection, clock: Clock, spool: Spool
) -> None:
    failover = Failover(admission, Local(clock), spool)
    now_s = iter([0.0, 1.0, PATIENCE_S])
    alerts = Alerts(admission, Owned(), Cells(Labels.of({}, ())))
    books = Bookkeeper(failover, Nobody(), Experience(), alerts, lambda: next(now_s))
    await alone(failover, connection)
    assert isinstance(await failover.acquire(Acquire("mine", (row(),), TTL_MS, b"opened")), Granted)
    assert await books.settle(settle("mine"), ()) is None
    assert spool.left == {"mine"}
    await back(failover, connection)
    assert await ledger(connection) == [], "it is not what a worker goes on with"
    await Replay(failover).tell_own()
    assert await ledger(connection) == [("open", "mine"), ("close", "mine")]
    assert (spool.left, spool.size_bytes) == (set(), 0)
    assert await ask(connection, "ZCARD", "tg:v1:{c0}:leases") == 0
