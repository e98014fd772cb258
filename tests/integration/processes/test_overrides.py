from gateway.config import Config
from gateway.processes.overrides import Overrides


def test_nothing_said_changes_nothing() -> None:
    assert Overrides().over(Config()) == Config()


def test_what_is_said_goes_over_the_file() -> None:
    config = Overrides(host="::1", port=0, ops_port=9, workers=3).over(Config())
    assert (config.api.host, config.api.port, config.ops.port, config.workers) == ("::1", 0, 9, 3)
    assert config.ops.host == Config().ops.host
