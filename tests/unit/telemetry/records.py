"""Records as the corridor leaves them."""

from typing import Any

from gateway.policy.record import Attempt, Outcome, Record
from gateway.telemetry.labels import Labels
from gateway.wire.usage import Usage

LABELS = Labels.of(
    {"chat": "chat", "completions": "text_completion"},
    [("nebius", "llama"), ("deepinfra", "llama"), ("nebius", "small")],
    [("llama", "small")],
    ["acme"],
)


def attempt(model: str = "llama", provider: str = "nebius", outcome: str = "ok", *, sent: bool = True) -> Attempt:
    return Attempt(model=model, provider=provider, status=200, outcome=outcome, sent=sent, duration_ms=400)


def record(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "request_id": "r1",
        "route": "chat",
        "started_s": 100.0,
        "started_unix_ms": 1_790_000_000_000,
        "ended_s": 100.5,
        "ttft_s": 0.04,
        "provider": "nebius",
        "model_served": "llama",
        "tier_served": "default",
        "stream": True,
        "outcome": Outcome.OK,
        "status": 200,
        "usage": Usage(input=26, cached=20, output=9, reasoning=3),
        "cost_nano_usd": 1_500_000,
        "attempts": [attempt()],
    }
    return Record(**{**fields, **changes})
