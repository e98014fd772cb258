"""What Anthropic's models refuse to be told, by their names: what holds where a file says nothing of a model's capabilities.

Written after Anthropic's guides to moving from one model to the next as of 2026-11-30; only what those say is an error. The first
pattern that fits counts. A name that none fits takes all that Messages has, and budgets of thinking. Pure.
"""

from collections.abc import Mapping

LEAST = {"thinking": "always", "sampling": False, "forced_tools": False, "prefill": False}
ADAPTIVE = {"thinking": "adaptive", "sampling": False, "prefill": False}
ONE_OF_TWO = {"temperature_with_top_p": False}

MODELS: Mapping[str, Mapping[str, object]] = {
    "claude-opus-5-5*": LEAST,
    "claude-sonnet-5-5*": LEAST,
    "claude-fable-5-1*": LEAST,
    "claude-haiku-5-5*": ADAPTIVE,
    "claude-opus-5*": ADAPTIVE,
    "claude-sonnet-5*": ADAPTIVE,
    "claude-opus-4-8*": ADAPTIVE,
    "claude-opus-4-7*": ADAPTIVE,
    "claude-opus-4-6*": {**ONE_OF_TWO, "prefill": False},
    "claude-sonnet-4-6*": {"prefill": False},
    "claude-*-4-5*": ONE_OF_TWO,
    "claude-opus-4-1*": ONE_OF_TWO,
}
"""Capabilities, as the configuration names them, by patterns of the names that Anthropic knows its models by."""
