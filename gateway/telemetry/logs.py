"""Events other than requests: structlog, set up once a process, JSON for machines or text for a terminal, on stdout.

What the standard library's loggers say (the server's, asyncio's) goes the same way. Every event passes redaction.
"""

import logging
from collections.abc import Callable, MutableMapping
from typing import Any, BinaryIO, Literal

import msgspec
import structlog

from gateway.telemetry.access import AccessLog, as_json, as_text
from gateway.telemetry.redaction import redacted

Format = Literal["json", "console"]
Event = MutableMapping[str, Any]

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

QUIET = ("httpx", "httpcore", "hpack", "aiosqlite", "alembic", "uvicorn")
"""Loggers that would write a line for each request, statement or listener; their warnings are heard."""


def configure(form: Format, level: str, out: BinaryIO) -> None:
    """Set logging up for this process. `out` takes whole lines of bytes."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            redact,
            render_json if form == "json" else _console(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.BytesLoggerFactory(out),
    )
    root = logging.getLogger()
    root.handlers = [ToStructlog()]
    root.setLevel(LEVELS[level])
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def access_log(form: Format, level: str, out: BinaryIO, soon: Callable[[Callable[[], None]], object]) -> AccessLog | None:
    """Return the log of requests on `out`, None where the level leaves them out. `soon` is the loop's `call_soon`."""
    if LEVELS[level] > logging.INFO:
        return None

    def write(lines: bytes) -> None:
        out.write(lines)
        out.flush()

    return AccessLog(write, soon, as_json if form == "json" else as_text)


class ToStructlog(logging.Handler):
    """Hands the standard library's records to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record."""
        log = structlog.get_logger().bind(logger=record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)


def redact(_logger: object, _method: str, event: Event) -> Event:
    """Take secrets out of an event."""
    return {name: redacted(value, name) for name, value in event.items()}


def render_json(_logger: object, _method: str, event: Event) -> bytes:
    """Return an event as one line: time, level and event first."""
    first = {name: event.pop(name) for name in ("ts", "level", "event") if name in event}
    return msgspec.json.encode({**first, **event}, enc_hook=str)


def _console() -> Callable[[object, str, Event], bytes]:
    render = structlog.dev.ConsoleRenderer(colors=False, timestamp_key="ts")
    return lambda logger, method, event: render(logger, method, event).encode()
