"""What LiteLLM's own router does with requests, without a network. Runs in an environment of its own; see `__main__`.

Reads a list of jobs from standard input and prints, for each, the walk of each of its requests: the models in the order in which
they are asked when all fail, and the deployments of each, drawn one after the other as they fail.
"""

import asyncio
import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import litellm  # type: ignore[import-not-found]
from litellm import Router
from litellm.integrations.custom_logger import CustomLogger  # type: ignore[import-not-found]

warnings.simplefilter("ignore")
litellm.suppress_debug_info = True

FAILS = "litellm.InternalServerError"
LISTS = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "default_fallbacks")
SETTINGS = (*LISTS, "model_group_alias", "routing_strategy", "max_fallbacks", "enable_pre_call_checks")


class Attempts(CustomLogger):  # type: ignore[misc]
    """Notes the model of each attempt that failed."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[str] = []

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        model = kwargs["litellm_params"]["metadata"].get("model_group")
        if model is not None and model not in self.models:
            self.models.append(model)


def resolved(value: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: resolved(held, given) for name, held in value.items()}
    if isinstance(value, str) and value.startswith("os.environ/"):
        name = value.removeprefix("os.environ/")
        return given.get(name) or os.environ[name]
    return value


def deployments(config: dict[str, Any], left_out: set[int]) -> list[dict[str, Any]]:
    given = config.get("environment_variables") or {}
    named = {each["credential_name"]: each["credential_values"] for each in config.get("credential_list") or ()}
    found = []
    for place, each in enumerate(config["model_list"]):
        if place in left_out:
            continue
        params = dict(each["litellm_params"])
        params |= named.get(params.pop("litellm_credential_name", None), {})
        params = resolved(params, given)
        found.append({**each, "litellm_params": params})
    return found


def router(config: dict[str, Any], models: list[dict[str, Any]]) -> Router:
    given = {**(config.get("litellm_settings") or {}), **(config.get("router_settings") or {})}
    return Router(
        model_list=models, num_retries=0, disable_cooldowns=True, **{name: given[name] for name in SETTINGS if name in given}
    )


async def walk(failing: Router, attempts: Attempts, model: str) -> list[str]:
    attempts.models = []
    with contextlib.suppress(litellm.exceptions.InternalServerError):
        await failing.acompletion(model=model, messages=[{"role": "user", "content": "x"}])
    known = -1
    while known != len(attempts.models):
        known = len(attempts.models)
        await asyncio.sleep(0.2)
    return attempts.models


def drawn(picking: Router, model: str, request: dict[str, Any]) -> list[list[str]]:
    """Return the deployments of a model, each drawn when those before it were taken away, lower orders first."""
    own = [each for each in picking.registry().all() if each["model_name"] == model]
    orders = sorted({order for each in own if (order := each["litellm_params"].get("order")) is not None})
    gone: list[str] = []
    found = []
    for order in orders or [None]:
        members = [each for each in own if each["litellm_params"].get("order") == order]
        for _ in members:
            asked = {"_excluded_deployment_ids": list(gone), **({} if order is None else {"_target_order": order})}
            picked = picking.get_available_deployment(model, messages=request["messages"], request_kwargs=asked)
            gone.append(picked["model_info"]["id"])
            params = picked["litellm_params"]
            found.append([params["model"], str(params.get("api_key") or "")])
    return found


def aliases(config: dict[str, Any]) -> Callable[[str], str]:
    """Return what has the name of a model for each that an alias has."""
    known = (config.get("router_settings") or {}).get("model_group_alias") or {}
    targets = {alias: target["model"] if isinstance(target, dict) else target for alias, target in known.items()}
    return lambda name: targets.get(name, name)


async def job(attempts: Attempts, config: dict[str, Any], requests: list[dict[str, Any]], left_out: list[int]) -> list[Any]:
    models = deployments(config, set(left_out))
    picking = router(config, models)
    failing = router(config, [{**each, "litellm_params": {**each["litellm_params"], "mock_response": FAILS}} for each in models])
    walks: dict[str, list[str]] = {}
    answers = []
    for request in requests:
        model = request["model"]
        if model not in walks:
            walks[model] = await walk(failing, attempts, model)
        answers.append([[name, drawn(picking, name, request)] for name in map(aliases(config), walks[model])])
    return answers


async def main() -> None:
    jobs, attempts = json.load(sys.stdin), Attempts()
    litellm.callbacks = [attempts]
    print(json.dumps([await job(attempts, each["config"], each["requests"], each["left_out"]) for each in jobs]))


asyncio.run(main())
