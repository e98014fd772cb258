"""The wire dialects, by the names that a configuration gives them. A name that is not here is the caller's error."""

from collections.abc import Callable, Mapping

from gateway.policy.catalogue import Provider
from gateway.policy.natures import Nature
from gateway.providers.anthropic import Anthropic
from gateway.providers.anthropic_request import NATURE as ANTHROPIC
from gateway.providers.azure import Azure
from gateway.providers.openai import PATHS, OpenAI
from gateway.providers.protocol import Dialect

DIALECTS: Mapping[str, Callable[[Provider], Dialect]] = {"openai": OpenAI, "anthropic": Anthropic, "azure": Azure}
"""Builds the dialect as one provider speaks it."""

OPENAIS = Nature(endpoints=frozenset(PATHS), idle_quirks=("adaptive_thinking",))
NATURES: Mapping[str, Nature] = {"openai": OPENAIS, "anthropic": ANTHROPIC, "azure": OPENAIS}
"""What planning has to know of each."""
