"""What a key or a model cannot honour: refused by name before anything is tried, never silently left out. Pure."""

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import NamedTuple

from gateway.errors import ContextLengthExceeded, InvalidValue, UnsupportedParameter, UnsupportedPrompt
from gateway.policy.catalogue import Deployment, Key, Model
from gateway.policy.means import Capabilities
from gateway.policy.steering import is_free, unsteered
from gateway.wire.pictures import has_pictures
from gateway.wire.prompts import Prompt
from gateway.wire.request import BOUNDS, TABLES, Endpoint, InferenceRequest

Needs = Callable[[InferenceRequest], str | None]
"""Returns the field by which a request needs a capability, None where it does not."""


def _filled(*names: str) -> Needs:
    """Return what finds the first of these fields that asks for something: neither false nor empty."""
    return lambda request: next((name for name in names if request.fields.get(name)), None)


def _logprobs(request: InferenceRequest) -> str | None:
    if request.endpoint is Endpoint.RESPONSES:
        return "top_logprobs" if request.fields.get("top_logprobs") else None
    asked = request.fields.get("logprobs")
    # On completions 0 asks for the sampled token's; on chat false asks for nothing.
    wanted = asked is not None and (asked is True or request.endpoint is Endpoint.COMPLETIONS)
    return "logprobs" if wanted else None


def _regex(request: InferenceRequest) -> str | None:
    asked = request.fields.get("response_format")
    return "response_format" if isinstance(asked, dict) and asked.get("type") == "regex" else None


def _vision(request: InferenceRequest) -> str | None:
    """Return where the pictures are; what is asked is looked into only where a model has no eyes."""
    if request.fields.get("data"):
        return "data"
    asked = TABLES[request.endpoint].asked
    return asked if has_pictures(request.members.value(asked) or b"") else None


STOPS = ("stop", "stop_sequences")
"""What stop sequences are called."""

NEEDS: Mapping[str, Needs] = {
    "tools": _filled("tools", "functions"),
    "vision": _vision,
    "logprobs": _logprobs,
    "regex": _regex,
    "suffix": _filled("suffix"),
    "echo": _filled("echo"),
}
"""By the names of `Capabilities` that are yes or no."""

MEASURED = tuple(name for name in Capabilities.__struct_fields__ if name != "endpoints")
"""The names of `Capabilities` of which there can be more or less."""


def check_model(model: Model, request: InferenceRequest) -> None:
    """Refuse what this model cannot honour, by field and model.

    Raises `UnsupportedParameter`, `InvalidValue` and `ContextLengthExceeded`.
    """
    if model.capabilities.endpoints is not None and request.endpoint not in model.capabilities.endpoints:
        raise UnsupportedParameter(f"The model '{model.name}' does not serve {request.endpoint}", param="model")
    if model.max_n is not None and request.made > model.max_n:
        name = made_of(request)
        raise InvalidValue(f"The model '{model.name}' allows {name} up to {model.max_n}", param=name)
    most_tokens = model.max_output_tokens
    if request.contract.refuses_longer and most_tokens is not None and (request.max_tokens or 0) > most_tokens:
        text = f"The model '{model.name}' gives up to {most_tokens} tokens"
        raise ContextLengthExceeded(text, param=bound_by(request))
    lack = lacking(model.capabilities, request)
    if lack is not None:
        raise refusal(model.name, model.capabilities, lack)


def made_of(request: InferenceRequest) -> str:
    """Return the field that says how many answers are made of each prompt."""
    return "n" if request.made == request.n else "best_of"


def bound_by(request: InferenceRequest) -> str:
    """Return the field by which the client has bounded its answer."""
    return next((name for name in BOUNDS if request.fields.get(name) == request.max_tokens), request.endpoint.bound)


NEEDING = frozenset({"tools", "functions", "data", "logprobs", "top_logprobs", "response_format", "suffix", "echo"} | {*STOPS})
"""All fields that capabilities are asked about, pictures aside: a request with none of them needs no closer look."""


class Lack(NamedTuple):
    """A capability of which a request needs more than there is, and the field that needs it."""

    capability: str
    field: str


def lacking(can: Capabilities, request: InferenceRequest) -> Lack | None:
    """Return what a request needs beyond these capabilities, the endpoint aside; None where they are enough."""
    fields = request.fields
    if not is_free(can) and (found := next(unsteered(can, request), None)) is not None:
        return Lack(*found)
    if can.vision and NEEDING.isdisjoint(fields):
        return None
    for name, needs in NEEDS.items():
        if not getattr(can, name) and (field := needs(request)) is not None:
            return Lack(name, field)
    for name in STOPS:
        stops = fields.get(name)
        if stops and isinstance(stops, Sized) and len(stops) > can.stop:
            return Lack("stop", name)
    alternatives = fields.get("top_logprobs")
    if isinstance(alternatives, int) and alternatives > can.max_logprobs:
        return Lack("max_logprobs", "top_logprobs")
    return None


def refusal(model: str, can: Capabilities, lack: Lack) -> InvalidValue | UnsupportedParameter:
    """Return the error of a request that needs more than a model can."""
    if lack.capability == "stop":
        return InvalidValue(f"The model '{model}' takes up to {can.stop} stop sequences", param=lack.field)
    if lack.capability == "max_logprobs":
        return InvalidValue(f"The model '{model}' gives up to {can.max_logprobs} top_logprobs", param=lack.field)
    asked = "images" if lack.capability == "vision" and lack.field != "data" else f"'{lack.field}'"
    return UnsupportedParameter(f"The model '{model}' does not support {asked}", param=lack.field)


def takes(deployment: Deployment, endpoint: Endpoint) -> bool:
    """Return whether a deployment is there for what clients ask for at an endpoint, as far as it says so itself."""
    can = deployment.capabilities
    return can is None or can.endpoints is None or endpoint in can.endpoints


def together(several: Sequence[Capabilities]) -> Capabilities:
    """Return what can be done by one or other of these, each thing by itself; the endpoints are of no matter here."""
    return Capabilities(**{name: max(getattr(each, name) for each in several) for name in MEASURED})


def check_key_bounds(key: Key, request: InferenceRequest) -> None:
    """Refuse a request that asks for more at once than its key may. Raises `InvalidValue`."""
    if key.max_n is not None and request.made > key.max_n:
        name = made_of(request)
        raise InvalidValue(f"This key allows {name} up to {key.max_n}", param=name)


THROUGH_CHAT: Mapping[Endpoint, tuple[Endpoint, Endpoint]] = {
    endpoint: (endpoint, Endpoint.CHAT) for endpoint in (Endpoint.COMPLETIONS, Endpoint.MESSAGES)
}
"""What goes through chat where a provider has nothing else, and chat can say it."""


def endpoints_for(request: InferenceRequest) -> tuple[Endpoint, ...]:
    """Return the endpoints that can serve a request, its own first."""
    if request.endpoint in THROUGH_CHAT and unsaid_in_chat(request) is None:
        return THROUGH_CHAT[request.endpoint]
    return (request.endpoint,)


def unsaid_in_chat(request: InferenceRequest) -> str | None:
    """Return the field for which a request cannot be made as one of chat, None where it can, or none is made so."""
    if request.endpoint is Endpoint.MESSAGES:
        return _unsaid_of_messages(request.fields)
    return _unsaid_of_completions(request) if request.endpoint is Endpoint.COMPLETIONS else None


def _unsaid_of_messages(fields: Mapping[str, object]) -> str | None:
    """Return what of the conversation chat has no words for, `tools` where one is the provider's own, or another day's word."""
    asked, tools, choice = fields.get("messages"), fields.get("tools"), fields.get("tool_choice")
    if isinstance(asked, Prompt) and asked.beyond_chat is not None:
        return asked.beyond_chat
    offered = tools if isinstance(tools, list) else []
    if any(tool.get("type", "custom") != "custom" for tool in offered):
        return "tools"
    if offered and isinstance(choice, dict) and choice.get("type", "auto") not in TOOL_CHOICES:
        return "tool_choice"
    config = fields.get("output_config")
    wanted = config.get("format") if isinstance(config, dict) else None
    return "output_config" if isinstance(wanted, dict) and wanted.get("type") != "json_schema" else None


TOOL_CHOICES = ("auto", "any", "tool", "none")
"""Those of Messages that chat has a word for."""


def _unsaid_of_completions(request: InferenceRequest) -> str | None:
    """Return what of a completion chat has no words for (wire contract, 5.4)."""
    fields = request.fields
    asked = fields.get("prompt")
    if request.token_prompt or (isinstance(asked, Prompt) and asked.has_empty):
        return "prompt"
    if fields.get("suffix"):
        return "suffix"
    if fields.get("echo") and "logprobs" in fields:
        return "echo"
    if fields.get("best_of") not in (None, 1, request.n):
        return "best_of"
    files = fields.get("data")
    # Which of several prompts an image belongs to, nothing says.
    return "data" if isinstance(files, dict) and (files.get("video") or (files.get("image") and request.prompts > 1)) else None


def refuse_chat(model: Model, field: str) -> UnsupportedParameter | UnsupportedPrompt:
    """Return the error of a request for which chat has no words, by a model that has nothing else."""
    text = f"The model '{model.name}' is served through chat completions, which cannot take this '{field}'"
    return UnsupportedPrompt(text, param=field) if field == "prompt" else UnsupportedParameter(text, param=field)
