"""What models can do, and at which of their deployments less."""

from typing import Annotated, Literal

import msgspec

from gateway.config.structs.base import Section
from gateway.wire.request import Endpoint

Endpoints = Annotated[tuple[Endpoint, ...], msgspec.Meta(min_length=1)]
MostLogprobs = Annotated[int, msgspec.Meta(ge=0, le=100)]
Thinking = Literal["budget", "adaptive", "always"]
MostStops = Annotated[int, msgspec.Meta(ge=0, le=128)]


class Capabilities(Section, frozen=True, kw_only=True):
    """What a model can do. A request that needs more goes to another deployment, or is refused.

    `endpoints` are those at which clients may ask for it; absent, all that its providers serve. `priority_field`: its deployments
    run vLLM's priority scheduling, and are told the tier by `priority`. What says nothing of `thinking` and what follows it is as
    the provider's dialect knows the model by its name, else `budget` and true.
    """

    endpoints: Endpoints | None = None
    tools: bool = True
    vision: bool = True
    logprobs: bool = True
    max_logprobs: MostLogprobs = 20
    regex: bool = False
    suffix: bool = True
    echo: bool = True
    stop: MostStops = 16
    ignore_eos: bool = False
    priority_field: bool = False
    thinking: Thinking | None = None
    sampling: bool | None = None
    temperature_with_top_p: bool | None = None
    forced_tools: bool | None = None
    prefill: bool | None = None


class DeploymentCapabilities(Section, frozen=True, kw_only=True):
    """What a deployment can do of what its model can; what is not written is as the model has it.

    `priority_field` alone is its own to say: it is nothing that a client asks for.
    """

    endpoints: Endpoints | None = None
    tools: bool | None = None
    vision: bool | None = None
    logprobs: bool | None = None
    max_logprobs: MostLogprobs | None = None
    regex: bool | None = None
    suffix: bool | None = None
    echo: bool | None = None
    stop: MostStops | None = None
    ignore_eos: bool | None = None
    priority_field: bool | None = None
    thinking: Thinking | None = None
    sampling: bool | None = None
    temperature_with_top_p: bool | None = None
    forced_tools: bool | None = None
    prefill: bool | None = None
