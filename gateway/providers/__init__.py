"""The wire dialects, by the names that a configuration gives them. A name that is not here is the caller's error."""

from collections.abc import Callable, Mapping

from gateway.policy.catalogue import Provider
from gateway.providers.openai import OpenAI
from gateway.providers.protocol import Dialect

DIALECTS: Mapping[str, Callable[[Provider], Dialect]] = {"openai": OpenAI}
"""Builds the dialect as one provider speaks it."""
