"""What can end one attempt at an upstream, and what a field of a body can have wrong: values, never raised.

The walk turns them into the errors of `gateway.errors` once nothing is left to try. Durations are milliseconds. Pure.
"""

from enum import StrEnum

import msgspec


class EndClass(StrEnum):
    """What an attempt's end means to the walk; the words of `fallback.on`."""

    CAPACITY = "capacity"
    UNAVAILABLE = "unavailable"
    CLIENT = "client"


class Fault(StrEnum):
    """Why one attempt at an upstream failed."""

    CONNECT = "connect"
    TLS = "tls"
    WRITE = "write"
    TIMEOUT = "timeout"
    RESET = "reset"
    PROTOCOL = "protocol"
    BAD_ANSWER = "bad_answer"
    SERVER = "server"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    CREDENTIAL = "credential"
    BILLING = "billing"
    STALE_MODEL = "stale_model"
    BUSY = "busy"
    ACCOUNT_RATE = "account_rate"
    REJECTED = "rejected"

    @property
    def end_class(self) -> EndClass:
        """Return the class of `fallback.on` that this fault belongs to."""
        if self in (Fault.BUSY, Fault.ACCOUNT_RATE):
            return EndClass.CAPACITY
        return EndClass.CLIENT if self is Fault.REJECTED else EndClass.UNAVAILABLE


class FieldError(msgspec.Struct, frozen=True):
    """One field of a body that has the wrong shape: where, what, and pydantic's name for it."""

    loc: tuple[str | int, ...]
    msg: str
    type: str


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt ended without an answer.

    `status` is the upstream's, 0 when none came. `message`, `param` and `code` are set for `REJECTED` alone: the
    client's own fault, told in the provider's words (already cleaned of hosts and secrets). `sent` says whether any byte of
    the request may have reached the upstream.
    """

    fault: Fault
    status: int = 0
    message: str = ""
    param: str | None = None
    code: str | None = None
    retry_after_ms: int | None = None
    sent: bool = True
    fields: tuple[FieldError, ...] = ()
    """The fields that a provider's 422 names, for `detail`."""
