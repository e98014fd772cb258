"""What models and deployments are able to do, as values; whether it is enough is `gateway.policy.capabilities`' to say. Pure."""

import msgspec

from gateway.wire.request import Endpoint


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model or a deployment can do; a request that needs more is refused or sent to another deployment.

    `endpoints` are those at which clients may ask for it, None all that its providers serve.
    """

    endpoints: tuple[Endpoint, ...] | None = None
    tools: bool = True
    vision: bool = True
    logprobs: bool = True
    max_logprobs: int = 20
    regex: bool = False
    suffix: bool = True
    echo: bool = True
    stop: int = 16
    ignore_eos: bool = False
    sampling: bool = True
    temperature_with_top_p: bool = True
    forced_tools: bool = True
    thinking_off: bool = True
    """Asked for `reasoning_effort: none`, it does not think."""
    prefill: bool = True
