from pathlib import Path

from gateway.config import Config, Edition
from gateway.policy.catalogue import Secret
from gateway.processes.assignment import Assignment, decode, encode
from gateway.processes.identity import Identity
from gateway.processes.server import Times

ASSIGNMENT = Assignment(
    gateway=Identity("host", "machine", "chance"),
    name="w0",
    edition=Edition(3, Config(keys_pepper=Secret("secret\nof two lines"))),
    api_fd=5,
    control_path=Path("/run/w0.sock"),
    redis_url="redis://:secret@host",
    state_dir=Path("/state"),
    pepper=b"\x00secret",
    times=Times(delay_s=5.0, drain_s=600.0),
)


def test_an_assignment_travels_as_one_line() -> None:
    line = encode(ASSIGNMENT)
    assert b"\n" not in line
    assert decode(line) == ASSIGNMENT


def test_an_assignment_does_not_show_what_is_in_it() -> None:
    assert repr(ASSIGNMENT) == "Assignment('w0')"
