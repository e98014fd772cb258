import pytest

from gateway.web.ops import Status, readiness_of, status_of

UP, SHAKY, STARTING = Status(ready=True), Status(ready=True, degraded=True), Status()


@pytest.mark.parametrize(
    ("statuses", "status", "states"),
    [
        ([UP, UP], "ready", ["ready", "ready"]),
        ([None, UP], "ready", ["unreachable", "ready"]),
        ([SHAKY], "ready", ["degraded"]),
        ([STARTING, None], "not_ready", ["not_ready", "unreachable"]),
        ([Status(degraded=True)], "not_ready", ["degraded"]),
        ([], "not_ready", []),
    ],
)
def test_one_worker_that_serves_makes_the_gateway_ready(statuses: list[Status | None], status: str, states: list[str]) -> None:
    readiness = readiness_of(statuses, draining=False)
    assert readiness.status == status
    assert [worker.state for worker in readiness.workers] == states
    assert readiness_of(statuses, draining=True).status == "draining"


def test_a_worker_may_say_more_than_is_asked() -> None:
    assert status_of(b'{"worker":"w0","ready":true,"degraded":false,"inflight":0}') == UP
    assert status_of(None) is None
