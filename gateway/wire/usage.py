"""The tokens of one answer, and how they are read from a `usage` object. Pure."""

import msgspec

MOST_TOKENS = 1_000_000_000
"""No answer has more; what claims to is a fault of the provider's, and is no figure to charge anybody for."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of one answer. `input` includes `cached` and `cache_write`, `output` includes `reasoning`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    cache_write: int = 0
    """What was read in full and cached for the next request."""
    cache_write_1h: int = 0
    """What of that is kept for an hour."""

    @property
    def total(self) -> int:
        """Return input and output together."""
        return self.input + self.output


NOTHING = Usage()

decode = msgspec.json.Decoder().decode


def usage_of(raw: bytes | msgspec.Raw) -> Usage | None:
    """Return the usage that these bytes state, None when they state none (null, an empty object, no JSON)."""
    try:
        return read_usage(decode(raw))
    except msgspec.DecodeError:
        return None


def read_usage(stated: object, before: Usage | None = None, *, reasoning_outside: bool = False) -> Usage | None:
    """Return the usage of a decoded `usage` object, None when it states none: no figure at all, or nothing but zeros.

    Figures that cannot be meant (negative, beyond `MOST_TOKENS`, no number) count as absent; a fraction is cut off. What is
    absent is what is left of the total, else what was reported `before`. More cached than input tokens, or more reasoning than
    output, is read as all of them; what was cached anew is at most the rest of the input, and of it what is kept for an hour.
    Where `reasoning_outside` is said of the provider, its output count leaves reasoning out: the output is both, or what is left
    of the total where that is more.
    """
    if not isinstance(stated, dict):
        return None
    prompt, completion = _tokens(stated.get("prompt_tokens")), _tokens(stated.get("completion_tokens"))
    if not prompt and not completion:
        return None
    total, known = _tokens(stated.get("total_tokens")), before or NOTHING
    given = _rest(total, completion, known.input) if prompt is None else prompt
    produced = _rest(total, prompt, known.output) if completion is None else completion
    cached, written, hour, reasoning = known.cached, known.cache_write, known.cache_write_1h, known.reasoning
    if isinstance(parts := stated.get("prompt_tokens_details"), dict):
        cached = _part(parts.get("cached_tokens"), cached)
        written = _part(parts.get("cache_write_tokens"), written)
        hour = _part(parts.get("cache_write_1h_tokens"), hour)
    if isinstance(parts := stated.get("completion_tokens_details"), dict):
        reasoning = _part(parts.get("reasoning_tokens"), reasoning)
    if reasoning_outside and completion is not None:
        produced = max(completion + reasoning, 0 if total is None else total - given)
    cached = min(cached, given)
    written = min(written, given - cached)
    return Usage(
        input=given,
        output=produced,
        cached=cached,
        reasoning=min(reasoning, produced),
        cache_write=written,
        cache_write_1h=min(hour, written),
    )


def _rest(total: int | None, part: int | None, known: int) -> int:
    return known if total is None or part is None else max(0, total - part)


def _part(figure: object, known: int) -> int:
    found = _tokens(figure)
    return known if found is None else found


def _tokens(figure: object) -> int | None:
    if type(figure) is not int and type(figure) is not float:
        return None
    return int(figure) if 0 <= figure <= MOST_TOKENS else None
