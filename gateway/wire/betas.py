"""The betas of Messages that a request is made in, from its header `anthropic-beta`, of which nothing but names is read.

https://platform.claude.com/docs/en/api/beta-headers. Which of them may leave is the operator's word. Pure.
"""

import re
from collections.abc import Iterable

HEADER = b"anthropic-beta"

NAME = re.compile(rb"[a-z0-9-]{1,64}")
"""What all of them are called; nothing else that a client writes is sent on."""

MOST_BETAS = 64
"""There are some sixty."""

USUAL = (
    "claude-code-*",
    "interleaved-thinking-*",
    "adaptive-thinking-*",
    "redact-thinking-*",
    "thinking-*",
    "effort-*",
    "task-budgets-*",
    "context-management-*",
    "mid-conversation-*",
    "prompt-caching-*",
    "extended-cache-ttl-*",
    "structured-outputs-*",
    "fine-grained-tool-streaming-*",
    "token-efficient-tools-*",
    "advanced-tool-use-*",
    "tool-search-tool-*",
    "tool-examples-*",
    "inline-tools-*",
    "computer-use-*",
)
"""Those that change how a request is read and answered, and neither its price, nor what is kept of it, nor who hears of it."""


def betas_of(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """Return the betas that a request names, each once, in its order."""
    named = (name.strip() for header, value in headers if header == HEADER for name in value.split(b","))
    return tuple(dict.fromkeys(name.decode() for name in named if NAME.fullmatch(name)))[:MOST_BETAS]
