from msgspec.structs import replace

from gateway.telemetry.reloads import Standing, figures

GOOD = Standing(generation=3, hash="abc", path="gateway.yaml", since_unix_ms=1_000, findings=(), read_unix_ms=2_500)


def values(standing: Standing) -> dict[str, float]:
    return {each.name.removeprefix("tiergate_config_"): sample.value for each in figures(standing) for sample in each.samples}


def test_how_it_stands_in_figures() -> None:
    good = {"generation": 3, "workers_behind": 0, "last_reload_successful": 1, "last_reload_success_timestamp_seconds": 2.5}
    assert values(GOOD) == good
    assert values(replace(GOOD, errors=("gateway.yaml:1: no",), behind={"w1": "no answer"})) == {
        **good,
        "last_reload_successful": 0,
        "workers_behind": 1,
    }
