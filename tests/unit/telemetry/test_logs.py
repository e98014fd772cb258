import io
import logging
from collections.abc import Callable, Iterator

import msgspec
import pytest
import structlog

from gateway.telemetry.logs import ToStructlog, access_log, configure
from tests.unit.telemetry.records import record


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers, root.level
    yield
    root.handlers, root.level = before
    structlog.reset_defaults()


def test_events_are_json_lines_without_secrets() -> None:
    out = io.BytesIO()
    configure("json", "info", out)
    structlog.get_logger("x").info("started", url="redis://u:p@h", admin_token="t", listeners=[8080])
    structlog.get_logger().debug("unseen")
    line = msgspec.json.decode(out.getvalue())
    assert list(line)[:3] == ["ts", "level", "event"]
    assert (line["event"], line["url"], line["admin_token"], line["listeners"]) == ("started", "redis://***@h", "***", [8080])


def test_exceptions_are_logged_whole_and_redacted() -> None:
    out = io.BytesIO()
    configure("json", "info", out)
    try:
        raise ValueError("Bearer abc.def")
    except ValueError:
        structlog.get_logger().exception("fault")
    line = msgspec.json.decode(out.getvalue())
    assert "ValueError: Bearer ***" in line["exception"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_the_standard_library_speaks_through_it(form: str) -> None:
    out = io.BytesIO()
    configure("json" if form == "json" else "console", "info", out)
    logging.getLogger("uvicorn.error").warning("odd %s", "thing")
    logging.getLogger("httpx").info("GET http://secret.example")
    assert b"odd thing" in out.getvalue()
    assert b"secret.example" not in out.getvalue()
    assert isinstance(logging.getLogger().handlers[0], ToStructlog)


def test_the_access_log_writes_unless_the_level_leaves_it_out() -> None:
    out = io.BytesIO()
    later: list[Callable[[], None]] = []
    log = access_log("json", "info", out, later.append)
    assert log is not None
    log.add(record())
    assert out.getvalue() == b""
    later.pop()()
    assert msgspec.json.decode(out.getvalue())["request_id"] == "r1"
    assert access_log("json", "warning", out, later.append) is None
