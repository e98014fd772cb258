"""One entry of `model_list`: a deployment, and what it says of its model. What cannot be served here is left out."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from gateway.config.problems import Where
from gateway.importing.accounts import Accounts, NotImportableError
from gateway.importing.fields import Fields
from gateway.importing.findings import Findings
from gateway.importing.numbers import count, number
from gateway.importing.reasons import MODEL_INFO, PARAMS
from gateway.importing.vendors import NATIVE, VENDORS, split

_ENDPOINTS = {
    "chat": "chat",
    "completion": "completions",
    "embedding": "embeddings",
    "responses": "responses",
    "batch": None,
}
"""What a `mode` is called here; those that are not listed are not served."""

PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write",
    "output_cost_per_reasoning_token": "reasoning",
}
_CAPABILITIES = {"supports_function_calling": "tools", "supports_vision": "vision"}
_WITHOUT_A_TAG = "default"


class Entry(msgspec.Struct, kw_only=True):
    """A deployment as its file has it. `weights` are what its share of the traffic goes by: the first that any entry has.

    `places` tell where the file says each field, by our names; prices are USD a million tokens, times seconds.
    """

    where: Where
    model: str
    provider: str
    upstream: str
    order: int | None
    weights: tuple[float, float, float]
    rpm: int | None
    tpm: int | None
    max_concurrency: int | None
    price: dict[str, Decimal]
    context_window: int | None
    max_output_tokens: int | None
    endpoint: str | None
    capabilities: dict[str, bool]
    timeout_s: float | None
    stream_timeout_s: float | None
    groups: tuple[str, ...]
    prefix: str
    base_model: str | None
    places: dict[str, Where]


class Reading(msgspec.Struct, frozen=True):
    """What entries are read with. With `by_tags`, those that have tags serve only requests that ask for them."""

    accounts: Accounts
    findings: Findings
    by_tags: bool = False


def entry(reading: Reading, values: Any, where: Where) -> Entry | None:
    """Return a deployment, or None after telling why it cannot be one here."""
    fields = Fields(values, where, reading.findings)
    params = Fields(fields.take("litellm_params"), fields.at("litellm_params"), reading.findings)
    info = Fields(fields.take("model_info"), fields.at("model_info"), reading.findings)
    fields.exact("model_name", ("models",))
    fields.ignore_rest({}, "read in litellm_params and model_info alone")
    try:
        return _entry(reading, fields, params, info)
    except NotImportableError as reason:
        reading.findings.left_out(where, f"not importable: {reason}")
        return None


def _entry(reading: Reading, fields: Fields, params: Fields, info: Fields) -> Entry:
    name, model = str(fields.take("model_name") or ""), str(params.take("model") or "")
    if not name or not model:
        raise NotImportableError("it has no model_name or no litellm_params.model")
    _refuse_restricted(reading, params, info)
    prefix, upstream = _served_as(params, model)
    vendor = VENDORS[prefix]
    endpoint = _endpoint(info)
    found = Entry(
        where=fields.where,
        model=name,
        provider=reading.accounts.of(prefix, vendor, params),
        upstream=upstream if "/" in upstream else vendor.model + upstream,
        order=count(params, "order"),
        weights=(number(params, "weight") or 0.0, number(params, "rpm") or 0.0, number(params, "tpm") or 0.0),
        rpm=count(params, "rpm"),
        tpm=count(params, "tpm"),
        max_concurrency=count(params, "max_parallel_requests"),
        price=_price(params, info),
        context_window=count(info, "max_input_tokens"),
        max_output_tokens=count(info, "max_output_tokens") or count(info, "max_tokens"),
        endpoint=endpoint,
        capabilities={ours: bool(info.take(theirs)) for theirs, ours in _CAPABILITIES.items() if info.take(theirs) is not None},
        timeout_s=number(params, "timeout"),
        stream_timeout_s=number(params, "stream_timeout"),
        groups=tuple(map(str, info.list("access_groups"))),
        prefix=prefix,
        base_model=_base_model(params, info),
        places={**_places(params, *_OF_PARAMS), **_places(info, *_OF_INFO)},
    )
    reading.findings.exact(params.at("model"), ("models", name, "deployments"))
    params.ignore_rest(PARAMS, "sent along with every request there; here clients say what they send")
    info.ignore_rest(MODEL_INFO, "tells clients and the user interface about the model; nothing is decided by it")
    return found


_OF_PARAMS = (
    "order",
    "weight",
    "rpm",
    "tpm",
    "max_parallel_requests",
    "timeout",
    "stream_timeout",
    "custom_llm_provider",
    *PRICES,
)
_OF_INFO = ("max_input_tokens", "max_output_tokens", "max_tokens", "mode", "access_groups", "base_model", *_CAPABILITIES, *PRICES)


def _places(fields: Fields, *names: str) -> dict[str, Where]:
    return {name: fields.at(name) for name in names if fields.take(name) is not None}


def _refuse_restricted(reading: Reading, params: Fields, info: Fields) -> None:
    """Raise for a deployment that only some may use there, in a way that is not known here: it would be everybody's."""
    if info.take("team_id") is not None or info.take("access_via_team_ids") is not None:
        raise NotImportableError("it is one team's own; give it a name of its own and that name to the team's keys")
    tags = params.take("tags") or []
    if not isinstance(tags, list):
        raise NotImportableError("its tags are no list")
    if reading.by_tags and tags and _WITHOUT_A_TAG not in tags:
        raise NotImportableError("it is only for requests with its tags, and nothing is routed by tags here")
    for name in ("mock_response", "supported_environments"):
        if (params.take(name) or info.take(name)) is not None:
            raise NotImportableError(f"it has {name}")
    if tags:
        reading.findings.ignored(params.at("tags"), "nothing is routed by tags here")


def _served_as(params: Fields, model: str) -> tuple[str, str]:
    provider = params.take("custom_llm_provider")
    prefix, upstream = split(model, None if provider is None else str(provider))
    if prefix is None:
        raise NotImportableError("nothing says at which provider: write the model as provider/name")
    if prefix in VENDORS:
        return prefix, upstream
    raise NotImportableError(f"{NATIVE.get(prefix, f'the provider {prefix}')} is not spoken here")


def _endpoint(info: Fields) -> str | None:
    if info.take("mode") is None:
        return None
    mode = str(info.take("mode"))
    if mode not in _ENDPOINTS:
        raise NotImportableError(f"models of mode {mode[:40]} are not served here")
    return _ENDPOINTS[mode]


def _price(params: Fields, info: Fields) -> dict[str, Decimal]:
    """Return what an entry says of the model's price; the entry's parameters hold before its information."""
    found: dict[str, Decimal] = {}
    for theirs, ours in PRICES.items():
        given = params.take(theirs) if params.take(theirs) is not None else info.take(theirs)
        if given is None:
            continue
        try:
            found[ours] = Decimal(str(given)) * 1_000_000
        except InvalidOperation:
            raise NotImportableError(f"its {theirs} is no number") from None
    return found


def _base_model(params: Fields, info: Fields) -> str | None:
    given = info.take("base_model") or params.take("base_model")
    return None if given is None else str(given)


def groups_of(entries: Mapping[str, list[Entry]]) -> dict[str, set[str]]:
    """Return the models of each access group."""
    found: dict[str, set[str]] = {}
    for model, deployments in entries.items():
        for group in {group for each in deployments for group in each.groups}:
            found.setdefault(group, set()).add(model)
    return found
