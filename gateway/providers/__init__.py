"""The wire dialects and the presets, by the names that a configuration gives them. Another name is the caller's error."""

import re
from collections.abc import Mapping
from importlib.resources import files

from gateway.policy.natures import Nature
from gateway.providers.anthropic import Anthropic
from gateway.providers.azure import Azure
from gateway.providers.openai import OpenAI
from gateway.providers.protocol import Spoken

DIALECTS: Mapping[str, Spoken] = {
    "openai": OpenAI,
    "anthropic": Anthropic,
    "azure": Azure,
}
"""Each builds the dialect as one provider speaks it."""

NATURES: Mapping[str, Nature] = {name: dialect.nature for name, dialect in DIALECTS.items()}
"""What planning has to know of each."""

PRESETS = tuple(re.findall(r"^([\w.-]+):", (files(__name__) / "presets.yaml").read_text("utf-8"), re.MULTILINE))
"""Of the presets the names alone: what they say is read where a file asks for one."""
