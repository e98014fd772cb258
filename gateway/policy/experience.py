"""What a request has to teach once its answer is whole, and what one worker remembers of all that the store has learned. Pure."""

from math import ceil

import msgspec

from gateway.policy.admission import Lesson
from gateway.policy.answers import Learned
from gateway.policy.natures import KEPT
from gateway.wire.prompts import MILLION, USUAL_RATIO_PPM, text_tokens
from gateway.wire.request import Endpoint, InferenceRequest
from gateway.wire.usage import Usage

LEAST_RATIO_PPM, MOST_RATIO_PPM = 150_000, MILLION
"""Tokens a byte beyond which a figure tells of something else than text: a template, tools of the provider's own."""

CLIENTS_TOOLS = frozenset({"function", "custom"})
"""Types of tools that the client runs."""

REMEMBERED = 4_096
"""How many orgs and models one worker knows at once; who is new to it is estimated as if nobody knew, once."""


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What of a request its usage is compared with. `text_bytes` is 0 where tokens say nothing of bytes."""

    org: str
    model: str
    text_bytes: int
    other_tokens: int
    choices: int
    is_bounded: bool


def asked(request: InferenceRequest, org: str, model: str) -> Asked:
    """Return what to remember of a request that goes to this model."""
    # What a file costs is a guess that must not be learned as text, nor what a model reads besides the request.
    text_bytes = 0 if request.files or _reads_more(request) else request.text_bytes
    other = request.prompt_tokens - text_tokens(request.text_bytes)
    return Asked(org, model, text_bytes, other, request.made * request.prompts, request.max_tokens is not None)


def _reads_more(request: InferenceRequest) -> bool:
    """Return whether the model reads what the request only names: earlier answers, what tools of the provider's own find."""
    if request.endpoint is not Endpoint.RESPONSES:
        return False
    tools = request.fields.get("tools")
    offered = tools if isinstance(tools, list) else []
    return any(name in request.fields for name in KEPT) or any(tool.get("type") not in CLIENTS_TOOLS for tool in offered)


def lesson(asked: Asked, usage: Usage) -> Lesson | None:
    """Return what the usage of a whole answer teaches, None where it teaches nothing.

    How long answers are that the client cut short itself tells nothing of those that it does not.
    """
    ratio_ppm = 0
    if asked.text_bytes and usage.input:
        ratio_ppm = (usage.input - asked.other_tokens) * MILLION // asked.text_bytes
        ratio_ppm = min(max(ratio_ppm, LEAST_RATIO_PPM), MOST_RATIO_PPM)
    output_tokens = 0 if asked.is_bounded else ceil(usage.output / asked.choices)
    return Lesson(asked.org, asked.model, ratio_ppm, output_tokens) if ratio_ppm or output_tokens else None


class Experience:
    """What this worker was told last, of models and of those orgs' answers that it served latest."""

    def __init__(self) -> None:
        self._ratios_ppm: dict[str, int] = {}
        self._outputs: dict[tuple[str, str], Learned] = {}

    def note(self, lesson: Lesson, learned: Learned) -> None:
        """Remember what the store said to a lesson."""
        place = (lesson.org, lesson.model)
        self._ratios_ppm[lesson.model] = learned.ratio_ppm
        self._outputs.pop(place, None)
        if len(self._outputs) >= REMEMBERED:
            del self._outputs[next(iter(self._outputs))]
        self._outputs[place] = learned

    def of(self, org: str, model: str) -> Learned:
        """Return what is known: the model's ratio from whoever asked it, lengths from this org's own answers alone."""
        ratio_ppm = self._ratios_ppm.get(model, USUAL_RATIO_PPM)
        known = self._outputs.get((org, model))
        return Learned(ratio_ppm) if known is None else Learned(ratio_ppm, known.p95_tokens, known.samples)
