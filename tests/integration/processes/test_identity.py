"""Workers are told apart by their names alone, wherever they run."""

import os
from pathlib import Path

import pytest

from gateway.processes import identity
from gateway.processes.identity import Identity, fresh, gateways_of, machine


def test_workers_with_the_same_numbers_on_hosts_of_the_same_name_are_not_the_same() -> None:
    one, other = fresh(), fresh()
    assert (one.host, one.machine) == (other.host, other.machine) == (os.uname().nodename, machine("any"))
    assert one.worker("w0", 7) != other.worker("w0", 7)
    workers = [gateway.worker(f"w{number}", 7 + number) for gateway in (one, other) for number in range(2)]
    assert len(set(workers)) == 4
    assert set(gateways_of(workers)) == {one, other}


def test_a_hosts_name_may_have_hyphens_and_other_releases_names_are_nobodys() -> None:
    pod = Identity("edge-7d9c-x2x", "0a1b2c3d", "99aa88bb")
    assert gateways_of([pod.worker("w0", 12), "w0-12", "w1-13", "/w0-12"]) == (pod,)
    assert str(pod) == "edge-7d9c-x2x (99aa88bb)"


def test_where_the_kernel_does_not_say_a_machine_is_its_hosts_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "BOOT_ID", tmp_path / "none")
    assert machine("one") == machine("one") != machine("other")
