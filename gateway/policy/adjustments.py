"""What the bounds of a target make of a request that passes them harmlessly: lowered, left out or rewritten, and reported.

Only what a client would rather have lowered than refused; what cannot be honoured is `gateway.policy.capabilities`'. Pure.
"""

from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from gateway.policy.charging import Target
from gateway.policy.estimates import longest_output_tokens
from gateway.policy.steering import is_free, left_out
from gateway.wire.fields import MOST_OUTPUT_TOKENS
from gateway.wire.request import BOUNDS, Endpoint, InferenceRequest

ADJUSTABLE = frozenset({"logprobs", "ignore_eos", "prompt_cache_key"})
"""What may be changed beside the bounds of the output."""

encode = msgspec.json.Encoder().encode


class Adjusted(msgspec.Struct, frozen=True):
    """A request as one target takes it. `lowered` are entries `name=value`, `dropped` names."""

    request: InferenceRequest
    lowered: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def adjust(request: InferenceRequest, target: Target, org: str, *, is_bounded: bool = False) -> Adjusted:
    """Return the request as its target takes it, for a caller of this org.

    One that `is_bounded` leaves with `max_tokens`, whether or not the client set any: what it may cost was counted by them. So
    does one whose contract says how long an answer without a bound may be. What generates nothing has no bound to be given.
    """
    fields, most_tokens = request.fields, target.model.max_output_tokens
    max_tokens = request.max_tokens
    usual = request.contract.absent_max_tokens
    if max_tokens is None and request.endpoint.generates and (is_bounded or usual is not None):
        bound = min(longest_output_tokens(request, target.model), usual or MOST_OUTPUT_TOKENS)
        adjusted = adjust(replace(request, max_tokens=bound), target, org)
        return replace(adjusted, lowered=(f"{request.endpoint.bound}={bound}", *adjusted.lowered))
    can = target.capabilities
    changes: dict[str, bytes | None] = {} if is_free(can) else dict.fromkeys(left_out(can, request))
    if not changes and ADJUSTABLE.isdisjoint(fields) and (max_tokens is None or most_tokens is None or max_tokens <= most_tokens):
        return Adjusted(request)
    lowered: dict[str, int] = {}
    dropped: tuple[str, ...] = ()
    if max_tokens is not None and most_tokens is not None and max_tokens > most_tokens:
        max_tokens = most_tokens
        lowered = {name: most_tokens for name in BOUNDS if name in fields}
    logprobs = fields.get("logprobs")
    if request.endpoint is Endpoint.COMPLETIONS and isinstance(logprobs, int) and logprobs > can.max_logprobs:
        lowered["logprobs"] = can.max_logprobs
        changes["logprobs"] = b"%d" % can.max_logprobs
    if "ignore_eos" in fields and not can.ignore_eos:
        dropped = ("ignore_eos",)
        changes["ignore_eos"] = None
    cache_key = fields.get("prompt_cache_key")
    if isinstance(cache_key, str):
        changes["prompt_cache_key"] = encode(scoped(cache_key, org))
    if not changes and max_tokens == request.max_tokens:
        return Adjusted(request)
    fitted = replace(request, max_tokens=max_tokens, changes={**request.changes, **changes})
    return Adjusted(fitted, tuple(f"{name}={value}" for name, value in lowered.items()), dropped)


def scoped(cache_key: str, org: str) -> str:
    """Return a cache key that is this org's own: no other hits or times its cache. One length, since providers bound it."""
    return blake2b(f"{org}\0{cache_key}".encode(), digest_size=16).hexdigest()
