"""A configuration of LiteLLM's proxy as a value, translated."""

from typing import Any

from yaml import safe_load

from gateway.importing.findings import Finding
from gateway.importing.source import Source
from gateway.importing.translation import Known, Translation, translate

MODEL = "{model_name: m, litellm_params: {model: openai/m, api_key: k%s}%s}"


def translated(text: str, known: Known | None = None) -> Translation:
    values = safe_load(text)
    return translate(Source(values, ()), known or {}, "2099-01-01")


def of(*entries: str, rest: str = "") -> Translation:
    """Return what becomes of entries of `model_list`."""
    return translated(f"model_list: [{', '.join(entries)}]\n{rest}")


def entry(params: str = "", info: str = "") -> str:
    return MODEL % (f", {params}" if params else "", f", model_info: {{{info}}}" if info else "")


def said(translation: Translation) -> dict[str, Finding]:
    return {finding.where: finding for finding in translation.findings.all()}


def model(translation: Translation, name: str = "m") -> dict[str, Any]:
    found: dict[str, Any] = translation.document["models"][name]
    return found
