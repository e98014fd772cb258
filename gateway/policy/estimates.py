"""What a request is held to cost before anybody knows. Tokens, and money where there is a budget.

The hold must be high enough that running streams cannot overrun a limit together, and low enough that one request without
`max_tokens` does not lock its key. Pure.
"""

from math import ceil

from gateway.policy.answers import Learned
from gateway.policy.catalogue import Model
from gateway.policy.charges import Charge, Estimate, Kind, Unit
from gateway.policy.pricing import Tariff
from gateway.wire.prompts import USUAL_RATIO_PPM, text_tokens
from gateway.wire.request import InferenceRequest

LONGEST_HOLD_TOKENS = 8_192
"""No output is held for more: a `max_tokens` of a million would empty a minute's bucket for an answer of a hundred."""

SHARE_OF_BUCKET = 8
"""Without `max_tokens` and without history, one request holds an eighth of the smallest token bucket at the most."""

FEWEST_TOKENS = 256
"""The least that is held for an unbounded answer: shorter guesses would let a burst overrun the bucket."""

FEWEST_SAMPLES = 20
"""Of fewer answers nobody knows which one of twenty is longer than the others."""

NOTHING_LEARNED = Learned()


def estimate(
    request: InferenceRequest, model: Model, smallest_bucket_tokens: int | None, learned: Learned = NOTHING_LEARNED
) -> Estimate:
    """Return what to hold for a request; `smallest_bucket_tokens` is the tightest bucket that its output is charged to.

    `learned` is what is known of its model and its org.
    """
    longest = min(model.max_output_tokens or LONGEST_HOLD_TOKENS, LONGEST_HOLD_TOKENS)
    if request.max_tokens is not None:
        longest = min(request.max_tokens, longest)
    choices = _choices(request)
    output = longest * choices
    if request.max_tokens is None and smallest_bucket_tokens is not None:
        # The share is the whole request's, however many choices it asks for: nine of them would never fit the bucket.
        output = min(output, max(FEWEST_TOKENS, smallest_bucket_tokens // SHARE_OF_BUCKET))
    if request.max_tokens is None and learned.samples >= FEWEST_SAMPLES:
        # A fifth more than what nearly all answers keep to.
        output = min(output, max(FEWEST_TOKENS, ceil(learned.p95_tokens * 6 / 5) * choices))
    prompt = request.prompt_tokens
    if learned.ratio_ppm != USUAL_RATIO_PPM:
        prompt += text_tokens(request.text_bytes, learned.ratio_ppm) - text_tokens(request.text_bytes)
    return Estimate(1, prompt, output, prompt + output)


AN_HOUR, ESCAPE = b'1h"', b"\\u"
"""Without one of these in it no request asks for what it says to be cached for an hour."""


def longest_output_tokens(request: InferenceRequest, model: Model) -> int:
    """Return how long one choice may be where that must be known: as the client bounds it, else as the model itself does."""
    if request.max_tokens is not None:
        return min(request.max_tokens, model.max_output_tokens or request.max_tokens)
    longest = model.max_output_tokens or LONGEST_HOLD_TOKENS
    return longest if model.context_window is None else max(1, min(longest, model.context_window - request.prompt_tokens))


def most_spent(request: InferenceRequest, model: Model, tariff: Tariff) -> tuple[int, int]:
    """Return the most nano-USD and tokens that a request comes to whose answer is bound like that; its prompt is an estimate."""
    output = longest_output_tokens(request, model) * _choices(request)
    body = request.members.body
    an_hour = AN_HOUR in body or ESCAPE in body
    return tariff.most_nano_usd(request.prompt_tokens, output, an_hour=an_hour), request.prompt_tokens + output


def _choices(request: InferenceRequest) -> int:
    """Return how many times there may be an output, which vectors have none of."""
    return request.made * request.prompts if request.endpoint.generates else 0


def smallest_bucket_tokens(charges: tuple[Charge, ...]) -> int | None:
    """Return the smallest capacity among the buckets that output is charged to, None without any."""
    counted = (charge for charge in charges if charge.unit in (Unit.OUTPUT, Unit.TOTAL) and charge.kind is not Kind.USE)
    return min((charge.capacity for charge in counted if not charge.shadow), default=None)
