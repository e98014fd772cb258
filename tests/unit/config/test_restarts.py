import pytest

from gateway.config.restarts import AT_START, kept, waits
from gateway.config.structs import Config
from tests.unit.config.reading import config
from tests.unit.config.rich import RICH


def test_what_waits_is_kept_and_the_rest_is_taken() -> None:
    running = config(RICH)
    changed = RICH.replace("port: 9000", "port: 9001").replace("rpm: 600, tpm_in", "rpm: 900, tpm_in")
    changed += "telemetry: {level: debug, propagate: [local]}\nshutdown: {drain: 1s}\n"
    found, waiting = kept(running, config(changed))
    assert waiting == ("api.port", "shutdown.drain", "telemetry.level")
    assert (found.api, found.shutdown, found.telemetry.level) == (running.api, running.shutdown, "info")
    assert (found.plans["pro"].limits.rpm, found.telemetry.propagate) == (900, ("local",))


def test_nothing_waits_where_nothing_has_changed() -> None:
    assert kept(config(RICH), config(RICH)) == (config(RICH), ())


@pytest.mark.parametrize(
    ("path", "answer"),
    [("api", True), ("api.port", True), ("dialects./v", True), ("apis", False), ("telemetry.propagate", False)],
)
def test_a_path_waits_with_its_section(path: str, answer: bool) -> None:
    assert waits(path) is answer


@pytest.mark.parametrize("path", AT_START)
def test_each_is_a_place_of_the_file(path: str) -> None:
    found = Config()
    for name in path.split("."):
        found = getattr(found, name)
