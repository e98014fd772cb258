from pathlib import Path

import pytest

from gateway.config.files import Files, identity


def test_a_file_has_changed_that_was_written_replaced_removed_or_made(tmp_path: Path) -> None:
    path, missing = tmp_path / "a", tmp_path / "b"
    path.write_text("1")
    files = Files()
    assert files.read(str(path)) == b"1"
    files.watch(str(missing))
    assert not files.changed()
    path.write_text("12")
    assert files.changed()
    files.read(str(path))
    assert not files.changed()
    missing.write_text("")
    assert files.changed()
    files.watch(str(missing))
    path.unlink()
    assert files.changed()


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("same")
    (tmp_path / "data").symlink_to("v1")
    (tmp_path / "f").symlink_to("data/f")
    files = Files()
    files.read(str(tmp_path / "f"))
    (tmp_path / "data").unlink()
    (tmp_path / "data").symlink_to("v2")
    assert files.changed()


def test_what_cannot_be_read_is_remembered_all_the_same(tmp_path: Path) -> None:
    files, path = Files(), tmp_path / "later"
    with pytest.raises(OSError, match="No such file"):
        files.read(str(path))
    assert not files.changed()
    path.write_text("here")
    assert files.changed()


def test_files_of_before_are_taken_along_unless_they_were_read_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("1")
    before = Files()
    before.read(str(path))
    before.watch(str(other))
    path.write_text("123")
    files = Files()
    files.read(str(path))
    files.watch_all(before)
    assert not files.changed()
    other.write_text("")
    assert files.changed()
    assert identity(str(tmp_path / "nowhere")) is None
