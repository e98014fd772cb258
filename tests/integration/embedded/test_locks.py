from pathlib import Path

from gateway.embedded.locks import Lock


def test_a_lock_has_one_holder_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = Lock.take(path)
    assert first is not None
    assert Lock.take(path) is None
    first.close()
    second = Lock.take(path)
    assert second is not None
    second.close()


def test_a_note_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = Lock.take(path)
    assert lock is not None
    lock.write("a longer note")
    lock.write("short")
    lock.close()
    assert path.read_text() == "short"
