"""The terms of the walk from model to model. Pure."""

import msgspec


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Which ends of one model's providers lead to the next model, and how far the walk goes.

    `retry_budget` is the share of a model's requests that may repeat work after a send; 1 is no bound.
    """

    on: frozenset[str] = frozenset({"capacity", "unavailable"})
    max_models: int = 4
    max_attempts: int = 6
    retry_budget: float = 0.1
