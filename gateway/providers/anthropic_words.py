"""Words and figures of Anthropic's answers in OpenAI's: why an answer ended, which tier it had, what it used. Pure."""

from collections.abc import Mapping

import msgspec

REASONS: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""The finish reasons that stop reasons are."""

TIERS: Mapping[str, str] = {"standard": "standard_only", "priority": "auto"}
"""By the word for the tier that served, the word that asks for it: tiers are configured by what is asked."""

PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""The three parts of a prompt, none of which holds another."""


def finish_reason(stop_reason: str) -> str:
    """Return what an answer's end is called; one of a kind that is not known yet is an ordinary end."""
    return REASONS.get(stop_reason, "stop")


class Figures:
    """What one answer used so far. A stream tells running totals, and each figure's last word counts."""

    def __init__(self) -> None:
        self.tier: str | None = None
        """The word that asks for the tier that served."""
        self.has_news = False
        self._prompt: Mapping[str, int] = {}
        self._hour = 0
        self._output = 0
        self._thinking: int | None = None

    def note(self, stated: object) -> None:
        """Take in a `usage` object; what it does not tell stays as it was."""
        if not isinstance(stated, dict):
            return
        self.has_news = True
        told = {name: figure for name in PROMPT if (figure := _tokens(stated.get(name))) is not None}
        if any(told.values()):
            # No prompt is empty: some tell zeros at the end, where they know nothing.
            self._prompt = {**self._prompt, **told}
        written = stated.get("cache_creation")
        self._hour = (_tokens(written.get("ephemeral_1h_input_tokens")) if isinstance(written, dict) else None) or self._hour
        output, details = _tokens(stated.get("output_tokens")), stated.get("output_tokens_details")
        self._output = self._output if output is None else output
        thinking = _tokens(details.get("thinking_tokens")) if isinstance(details, dict) else None
        self._thinking = self._thinking if thinking is None else thinking
        word = stated.get("service_tier")
        self.tier = TIERS.get(word, word) if isinstance(word, str) else self.tier

    def usage(self) -> dict[str, object] | None:
        """Return the `usage` object of an OpenAI answer; None while nobody has told of the prompt, which would be free."""
        if not self._prompt:
            return None
        prompt, output = sum(self._prompt.values()), self._output
        details = {"cached_tokens": self._prompt.get("cache_read_input_tokens", 0)}
        if written := self._prompt.get("cache_creation_input_tokens", 0):
            details["cache_write_tokens"] = written
            if self._hour:
                details["cache_write_1h_tokens"] = self._hour
        found: dict[str, object] = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": details,
        }
        if self._thinking is not None:
            found["completion_tokens_details"] = {"reasoning_tokens": self._thinking}
        return found


def arguments(given: msgspec.Raw) -> str:
    """Return a tool call's arguments as the JSON text that clients of OpenAI's read; a call without any has an empty object."""
    text = bytes(given).decode()
    return "{}" if text == "null" else text


def _tokens(figure: object) -> int | None:
    return figure if type(figure) is int and figure >= 0 else None
