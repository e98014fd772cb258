"""The wire dialects, by the names that a configuration gives them. A name that is not here is the caller's error."""

from collections.abc import Mapping

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
