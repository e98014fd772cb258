import stat
from pathlib import Path

from gateway.processes.pepper import PEPPER_BYTES, kept_pepper


def test_a_pepper_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    pepper = kept_pepper(tmp_path)
    assert len(bytes.fromhex(pepper.decode())) == PEPPER_BYTES
    assert kept_pepper(tmp_path) == pepper
    assert [path.name for path in tmp_path.iterdir()] == ["pepper"]
    assert stat.S_IMODE((tmp_path / "pepper").stat().st_mode) == 0o600


def test_two_state_directories_have_two_peppers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert kept_pepper(tmp_path / "a") != kept_pepper(tmp_path / "b")
