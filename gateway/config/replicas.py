"""Whether a gateway that is to be one of several keeps what all of them have to share where only itself can reach it.

A file that is sound on one machine loses limits, keys and ledger where orchestrators run it more than once, or without a disk.
Who starts it there says so, and is told before anything is started.
"""

from collections.abc import Iterator, Mapping

from gateway.config.parse import Parsed
from gateway.config.problems import Problem

VARIABLE = "TIERGATE_REFUSE_EMBEDDED"
"""Of the environment, since the file is what it judges: set to anything but nothing or 0."""


def check(parsed: Parsed, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Yield each store that a second gateway could not reach, where the environment says that there will be one."""
    if environ.get(VARIABLE, "") in ("", "0"):
        return
    redis, database = parsed.config.redis, parsed.config.database
    if redis.embedded:
        message = f"embedded is for one gateway alone, and {VARIABLE} is set: write the URL of a Redis that all of them reach"
        yield parsed.problem(("redis", "url"), message)
    if database.url.reveal().startswith("sqlite"):
        message = f"SQLite is for one machine alone, and {VARIABLE} is set: write the URL of a Postgres that all gateways reach"
        yield parsed.problem(("database", "url"), message)
