from pathlib import Path

from gateway.embedded.valkey import server_options


def test_the_server_keeps_everything_and_listens_on_its_socket_alone() -> None:
    words = server_options(Path("/state"), Path("/run/valkey.sock"))
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert options["--port"] == "0"
    assert options["--unixsocket"] == "/run/valkey.sock"
    assert options["--unixsocketperm"] == "700"
    assert options["--dir"] == "/state"
    assert (options["--appendonly"], options["--appendfsync"], options["--save"]) == ("yes", "everysec", "")
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--maxmemory"] != "0"
