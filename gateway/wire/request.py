"""The part of an inference request that the gateway reads, over the body's own bytes.

`parse` refuses what is not one clean JSON document (400) or has the wrong shape (422, every bad field at once) and keeps the
rest untouched: fields that nothing here names travel byte for byte. Token counts are estimates from bytes. Which models, tiers
and limits apply is decided elsewhere. Pure.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from gateway.errors import InvalidJson, InvalidValue, Unprocessable, UnsupportedParameter
from gateway.faults import FieldError
from gateway.wire.contracts import OPENAI, Contract
from gateway.wire.fields import CHAT, COMPLETIONS, COUNTED, EMBEDDINGS, MESSAGES, REFUSED_IN_EXTRA_BODY, RESPONSES
from gateway.wire.members import Members, splice, split
from gateway.wire.prompts import TOKENS_PER_FILE, Prompt, text_tokens
from gateway.wire.readers import Reader, Wrong


class Endpoint(StrEnum):
    """What a client asks for, and what a provider serves natively."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    RESPONSES = "responses"

    @property
    def generates(self) -> bool:
        """Return whether answers are text of the model's own: a vector has no output tokens, and no bound of them."""
        return self is not Endpoint.EMBEDDINGS

    @property
    def bound(self) -> str:
        """Return what the bound of an answer is called where the client has named none."""
        return "max_output_tokens" if self is Endpoint.RESPONSES else "max_tokens"


class InferenceRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A parsed request: the fields that the gateway obeys, and the body's members for the dialect to edit.

    `models` is the client's list as sent (None when absent); `model` is None only when `models` is set. `max_tokens` is the
    smallest of its names; a dialect sends this value, whatever the body says. `service_tier` is the client's word.
    `prompt_tokens` is the estimate where nothing has been learned, `text_bytes` what of the prompt it goes by, 0 for token ids.
    `include_usage` is what the client asked of a stream, None when it did not say; whether an empty `stream_options` asks is the
    contract's.
    """

    endpoint: Endpoint
    contract: Contract = OPENAI
    members: Members
    model: str | None
    models: tuple[str, ...] | None
    stream: bool
    service_tier: str | None
    fail_fast: bool
    max_tokens: int | None
    n: int
    prompts: int
    prompt_tokens: int
    include_usage: bool | None
    text_bytes: int = 0
    best_of: int = 1
    files: int = 0
    """Images and sounds inside messages: of their tokens nobody knows before the provider tells."""
    token_prompt: bool = False
    """The prompt is token ids, which only some upstreams take."""
    refers: bool = False
    """What is asked names what its provider has kept of another answer."""
    fields: Mapping[str, object] = {}
    """Every known field that is there and not null, as its reader returned it: what capabilities are judged by."""
    changes: Mapping[str, bytes | None] = {}
    """What the gateway itself changes in the body before it leaves, by name: JSON text, or None to leave the field out."""
    betas: tuple[str, ...] = ()
    """In which betas of Messages it is asked, as its header names them."""

    @property
    def made(self) -> int:
        """Return how many answers are made of each prompt, of which the client gets `n`: all of them are paid for."""
        return max(self.n, self.best_of)

    @property
    def wants_running_usage(self) -> bool:
        """Return whether the client asked for usage on every chunk."""
        options = self.fields.get("stream_options")
        return isinstance(options, dict) and bool(options.get("continuous_usage_stats"))

    @property
    def user(self) -> str:
        """Return which of the client's own users it is for, as that is told on its endpoint; empty where it is not."""
        metadata = self.fields.get("metadata") if self.endpoint is Endpoint.MESSAGES else None
        found = metadata.get("user_id") if isinstance(metadata, dict) else self.fields.get("user")
        return found if isinstance(found, str) else ""

    def leaving(self, name: str) -> bytes | None:
        """Return a field as it leaves: as the gateway has changed it, else as the client wrote it; None where it is left out."""
        return self.changes[name] if name in self.changes else self.members.value(name)

    def __repr__(self) -> str:
        return f"InferenceRequest({self.endpoint}, {self.members!r})"


class Table(msgspec.Struct, frozen=True):
    """One endpoint's fields, the one that holds what is asked, and those that no request does without besides."""

    fields: Mapping[str, Reader[object]]
    asked: str
    required: tuple[str, ...] = ()


BOUNDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""What clients call the bound of an answer: the smallest counts."""

OFFERED = frozenset({"tools", "functions", "system", "instructions", "suffix", "response_format", "text", "prediction"})
"""What the model reads besides: what it may call, is to know, to fit or to keep to. Providers count it with the prompt."""

TABLES: Mapping[Endpoint, Table] = {
    Endpoint.CHAT: Table(CHAT, "messages"),
    Endpoint.COMPLETIONS: Table(COMPLETIONS, "prompt"),
    Endpoint.EMBEDDINGS: Table(EMBEDDINGS, "input"),
    Endpoint.MESSAGES: Table(MESSAGES, "messages", required=("max_tokens",)),
    Endpoint.RESPONSES: Table(RESPONSES, "input"),
}


COUNT = Table(COUNTED, "messages")
"""A message whose tokens are only counted: it has no answer to be bounded."""


Judge = Callable[[Mapping[str, object]], Iterable[FieldError]]
"""Finds what is wrong with values whose shape is right."""


def parse(
    endpoint: Endpoint, body: bytes, contract: Contract = OPENAI, table: Table | None = None, judge: Judge | None = None
) -> InferenceRequest:
    """Read a request body as a contract has it; `table` is another than the endpoint's own, what `judge` finds is bad as well.

    Raises `InvalidJson` (no clean JSON document), `Unprocessable` (the wrong shape, every bad field at once), `InvalidValue`
    (fields that contradict each other) and `UnsupportedParameter` (what no provider is asked for).
    """
    table = table or TABLES[endpoint]
    try:
        members, wrong = _merge_extra_body(split(body))
        found, more = _read(members, table, contract)
    except RecursionError:
        raise InvalidJson("The body is nested too deeply") from None
    if judge is not None:
        more += judge(found)
    if wrong or more:
        raise Unprocessable((*more, *wrong))
    if found.get("background"):
        raise UnsupportedParameter(
            "An answer in the background would have nobody to count it: ask for a stream", param="background"
        )
    if endpoint is Endpoint.CHAT and found.get("top_logprobs") is not None and not found.get("logprobs"):
        raise InvalidValue("top_logprobs needs logprobs to be true", param="top_logprobs")
    return _request(endpoint, contract, members, found)


def _read(members: Members, table: Table, contract: Contract) -> tuple[dict[str, object], list[FieldError]]:
    """Return the values of known fields that are there, and what is wrong with the others."""
    given = {name: value for name, value in members.values().items() if value != b"null"}
    if "models" in given:
        given.pop("model", None)
    is_whole = table.asked in given and ("model" in given or "models" in given)
    missing = [] if is_whole and not table.required else _missing(table, given)
    found: dict[str, object] = {}
    fields = table.fields
    wrong: list[FieldError] = missing
    for name, value in given.items():
        reader = fields.get(name)
        if reader is not None:
            try:
                found[name] = reader.read(value)
            except Wrong as error:
                wrong += error.at("body", name)
    wrong += _beyond(found, contract)
    return found, wrong


def _beyond(found: Mapping[str, object], contract: Contract) -> Iterator[FieldError]:
    """Yield what a contract bounds more tightly than the others."""
    choices, sequences = found.get("n"), found.get("stop")
    if isinstance(choices, int) and choices > contract.most_choices:
        yield FieldError(("body", "n"), f"Input should be less than or equal to {contract.most_choices}", "less_than_equal")
    if isinstance(sequences, tuple) and len(sequences) > contract.most_stops:
        yield FieldError(("body", "stop"), f"List should have at most {contract.most_stops} items", "too_long")


def _missing(table: Table, given: Container[str]) -> list[FieldError]:
    required = (*(() if "models" in given else ("model",)), table.asked, *table.required)
    return [FieldError(("body", name), "Field required", "missing") for name in required if name not in given]


def _merge_extra_body(members: Members) -> tuple[Members, list[FieldError]]:
    """Lift what is in `extra_body` to the top, where an explicit field wins, so that everything below sees one body.

    Return what is wrong with it besides, none of which is lifted.
    """
    raw = members.value("extra_body")
    if raw is None:
        return members, []
    if raw == b"null":
        return split(splice(members, {"extra_body": None})), []
    if not raw.startswith(b"{"):
        return members, [FieldError(("body", "extra_body"), "Input should be an object", "dict_type")]
    extra = split(raw).values()
    text = "This field belongs at the top of the body"
    refused = [
        FieldError(("body", "extra_body", name), text, "extra_forbidden") for name in extra if name in REFUSED_IN_EXTRA_BODY
    ]
    lifted = {
        name: value
        for name, value in extra.items()
        if name not in REFUSED_IN_EXTRA_BODY and members.value(name) in (None, b"null")
    }
    return split(splice(members, {"extra_body": None, **lifted})), refused


def _request(endpoint: Endpoint, contract: Contract, members: Members, found: dict[str, object]) -> InferenceRequest:
    values = msgspec.convert(found, Obeyed)
    asked = values.messages or values.input or values.prompt
    text_bytes, prompt_tokens = asked.text_bytes, asked.tokens
    if not OFFERED.isdisjoint(found):
        text_bytes += sum(len(members.value(name) or b"") for name in OFFERED & found.keys())
        prompt_tokens += text_tokens(text_bytes) - text_tokens(asked.text_bytes)
    pictures = 0 if values.data is None else sum(map(len, values.data.values()))
    named = (values.max_tokens, values.max_completion_tokens, values.max_output_tokens)
    bounds = [bound for bound in named if bound is not None]
    options = values.stream_options
    return InferenceRequest(
        endpoint=endpoint,
        contract=contract,
        members=members,
        model=values.model,
        models=values.models,
        stream=values.stream,
        service_tier=values.service_tier,
        fail_fast=values.fail_fast,
        max_tokens=min(bounds, default=None),
        n=values.n,
        best_of=values.best_of,
        prompts=asked.prompts,
        prompt_tokens=prompt_tokens + TOKENS_PER_FILE * pictures,
        text_bytes=text_bytes,
        files=asked.files + pictures,
        include_usage=None if options is None else options.get("include_usage", contract.asks_for_usage.get(endpoint, False)),
        token_prompt=asked.of_tokens,
        refers=asked.refers,
        fields=found,
    )


class Obeyed(msgspec.Struct, gc=False):
    """The fields that steer the gateway, with their defaults. One of `messages`, `prompt` and `input` is there."""

    model: str | None = None
    models: tuple[str, ...] | None = None
    messages: Prompt | None = None
    input: Prompt | None = None
    prompt: Prompt = Prompt(0, 0)
    stream: bool = False
    service_tier: str | None = None
    fail_fast: bool = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    n: int = 1
    best_of: int = 1
    stream_options: dict[str, bool] | None = None
    data: dict[str, list[str]] | None = None
