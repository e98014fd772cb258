"""How candidates end: in which class, what the trail tells of it, and whether it is the end of one credential alone. Pure."""

from collections.abc import Mapping

import msgspec

from gateway.faults import EndClass, Failed, Fault
from gateway.policy.answers import Cause, Refusal
from gateway.policy.charging import Target
from gateway.policy.record import Attempt
from gateway.policy.trace import reason_of

OF_OUR_ACCOUNT = frozenset({Fault.ACCOUNT_RATE, Fault.CREDENTIAL, Fault.BILLING})
"""What a provider has against one account of ours, and not against another's request."""


class End(msgspec.Struct, frozen=True, gc=False):
    """How one candidate ended: by a refusal before it was tried (`sent` False) or by a failed attempt.

    `alone`: the deployment's other credentials may be tried after it.
    """

    candidate: int
    end_class: str
    sent: bool
    alone: bool = False


RATE_LIMIT = "rate_limit"
"""The class of a refusal by a limit of the caller's own; leads on only where the operator says so."""


REASONS: Mapping[str, str] = {"context_length_exceeded": "context_length", "content_filter": "content_filter"}
"""Refusals for the request's own sake that another model may not share, by their code: opt-in classes of `fallback.on`."""


def end_of(place: int, failed: Failed) -> End:
    """Return how the candidate at this place in the plan ended by a failed attempt."""
    return End(place, end_class(failed), failed.sent, failed.fault in OF_OUR_ACCOUNT)


def refused_end(place: int, refusal: Refusal) -> End:
    """Return how the candidate at this place ended by a refusal: what is the whole deployment's refused its others as well."""
    return End(place, refusal_class(refusal), sent=False, alone=True)


def end_class(failed: Failed) -> str:
    """Return the class that a failed attempt ends in; some refusals for the request's own sake have one of their own."""
    if failed.fault is Fault.REJECTED and failed.code is not None:
        return REASONS.get(failed.code, EndClass.CLIENT)
    return failed.fault.end_class


def refusal_class(refusal: Refusal) -> str:
    """Return the class that a candidate ends in which was refused before it was tried."""
    if refusal.charge.tenant:
        return RATE_LIMIT
    return EndClass.UNAVAILABLE if refusal.cause in (Cause.OPEN, Cause.DISABLED) else EndClass.CAPACITY


def refusal_status(refusal: Refusal) -> int:
    """Return what a candidate is told to have answered that was refused before it was tried."""
    if refusal.charge.is_budget:
        return 402
    return 0 if refusal_class(refusal) == EndClass.UNAVAILABLE else 429


def refused_attempt(target: Target, refusal: Refusal) -> Attempt:
    """Return what the trail tells of a candidate that was refused before it was tried."""
    return Attempt(
        model=target.model.name,
        provider=target.deployment.provider.name,
        status=refusal_status(refusal),
        outcome="refused",
        sent=False,
        reason=reason_of(refusal),
    )
