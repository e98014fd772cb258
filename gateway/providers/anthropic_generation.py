"""How an answer is to come about, in Anthropic's words: `reasoning_effort`, `temperature`, `top_p` and `top_k`. Tokens. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from gateway.policy.steering import USUAL
from gateway.providers.anthropic_messages import Block
from gateway.wire.request import InferenceRequest

FEWEST_THINKING_TOKENS = 1_024
"""Messages takes no smaller budget, and wants it to be less than `max_tokens`."""

SHARES: Mapping[object, float] = {"minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.95, "max": 0.95}
"""The share of an answer's bound that may go into thinking, by `reasoning_effort`."""

EFFORTS: Mapping[object, object] = {"minimal": "low"}
"""What a model that chooses its own budget calls an effort, where the word is another."""

BUDGET = "budget"
"""How those models think that are told how many tokens to think; others choose themselves."""

ADAPTIVE: Block = {"type": "adaptive", "display": "summarized"}
OFF: Block = {"type": "disabled"}

decode = msgspec.json.Decoder().decode


class Generation(msgspec.Struct, frozen=True):
    """Members of a body, and of its `output_config`; what had to be left out for them, and what was lowered."""

    members: Block
    config: Block = {}
    left: frozenset[str] = frozenset()
    lowered: tuple[str, ...] = ()


class Leave(msgspec.Struct, frozen=True):
    """What a request leaves room for: `bound` tokens in all; `forced`: a tool has to be called, `goes_on`: the turn has begun."""

    bound: int
    forced: bool
    goes_on: bool


def generation(request: InferenceRequest, leave: Leave, thinking: str) -> Generation:
    """Return how the answer is asked for; the model is not asked to think where Messages would refuse it.

    `thinking` is a deployment's. Messages would where a tool has to be called, where the bound leaves no room, and, for a budget
    of ours, in the middle of a turn: what was thought at its beginning is nothing that clients of OpenAI's have.
    """
    asked = {name: decode(request.leaving(name) or b"null") for name in USUAL}
    sampling = {name: value for name, value in asked.items() if value not in USUAL[name]}
    effort = request.fields.get("reasoning_effort")
    adaptive = thinking != BUDGET
    if effort in (None, "none"):
        made = _unthinking(sampling, frozenset())
        # Some of those that choose their own budget think unless they are told not to.
        return replace(made, members={"thinking": OFF, **made.members}) if adaptive and effort else made
    if leave.forced or not (adaptive or (leave.bound > FEWEST_THINKING_TOKENS and not leave.goes_on)):
        return _unthinking(sampling, frozenset({"reasoning_effort"}))
    # A model that thinks takes no word on how its tokens are picked.
    left = frozenset(sampling)
    if adaptive:
        return Generation({"thinking": ADAPTIVE}, {"effort": EFFORTS.get(effort, effort)}, left)
    budget = max(FEWEST_THINKING_TOKENS, int(leave.bound * SHARES[effort]))
    return Generation({"thinking": {"type": "enabled", "budget_tokens": budget}}, left=left)


def _unthinking(sampling: Block, left: frozenset[str]) -> Generation:
    warm = sampling.get("temperature")
    if isinstance(warm, int | float) and warm > 1:
        # 1 is the highest there is, and what it is where nothing is said.
        rest = {name: value for name, value in sampling.items() if name != "temperature"}
        return Generation(rest, left=left, lowered=("temperature=1",))
    return Generation(sampling, left=left)
