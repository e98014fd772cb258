"""The log probabilities of a chat answer in the shape that completions have: four arrays with an entry for each token. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

LOWEST = -9999.0
"""Nothing lies below it: what clients of completions take for impossible."""


class Likely(msgspec.Struct, gc=False):
    """One token that was likely in its place."""

    token: str = ""
    logprob: float | None = None


class Token(Likely, gc=False):
    """A token that was drawn, and those that were likely instead. `bytes` is what it stands for, as far as that is told."""

    bytes: list[int] | None = None
    top_logprobs: list[Likely] | None = None

    @property
    def code_points(self) -> int:
        """Return how many characters begin in the token: some have but a part of one."""
        return len(self.token) if self.bytes is None else sum(byte & 0xC0 != 0x80 for byte in self.bytes)


class Logprobs(msgspec.Struct, gc=False):
    """What a choice says of its tokens, those of a refusal by themselves."""

    content: list[Token] | None = None
    refusal: list[Token] | None = None


def tokens_of(stated: object) -> list[Token]:
    """Return the tokens of a choice's `logprobs`, none where they are not there or not to be understood."""
    try:
        found = msgspec.convert(stated, Logprobs | None)
    except msgspec.ValidationError:
        return []
    return [] if found is None else [*(found.content or ()), *(found.refusal or ())]


class Offsets:
    """Where the tokens of one choice stand in its text, counted in code points from `start` on."""

    def __init__(self, start: int) -> None:
        self._start = self._next = start

    def legacy(self, tokens: list[Token], end: int | None) -> Mapping[str, object]:
        """Return the arrays of these tokens, which follow those before.

        `end` is how long the text is, once it has ended: what was cut off it, as a stop sequence is, has no place in the arrays.
        """
        kept = [*self._placed(tokens, None if end is None else self._start + end)]
        return {
            "tokens": [token.token for token, _ in kept],
            "token_logprobs": [bounded(token) for token, _ in kept],
            "top_logprobs": [likeliest(token) for token, _ in kept],
            "text_offset": [offset for _, offset in kept],
        }

    def _placed(self, tokens: list[Token], end: int | None) -> Iterator[tuple[Token, int]]:
        for token in tokens:
            offset, self._next = self._next, self._next + token.code_points
            if end is None or offset < end:
                yield token, offset


def likeliest(token: Token) -> dict[str, float]:
    """Return a token's alternatives and itself by their text; of two that read the same the likelier counts."""
    found: dict[str, float] = {}
    for each in (*(token.top_logprobs or ()), token):
        found[each.token] = max(bounded(each), found.get(each.token, LOWEST))
    return found


def bounded(likely: Likely) -> float:
    """Return how likely a token was, no less than the lowest."""
    return LOWEST if likely.logprob is None else max(likely.logprob, LOWEST)
