"""The models of the walk's cases: A to D answer for each other, the rest are there for one case each."""

import socket
from typing import Any

from tests.running import config


def closed_url() -> str:
    """Return where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


FORGIVING = {"open": "1ms", "max_open": "1ms", "cooldown_max": "1ms"}
"""What one case does to a provider is over by the next."""

PRICE = {"input": 1.0, "output": 2.0}


def model(name: str, *providers: str, **fields: Any) -> dict[str, Any]:
    """One model with a slot at each of these providers, tried in this order."""
    deployments = [
        {"provider": provider, "model": f"up-{name}", "max_concurrency": 1, "order": place + 1}
        for place, provider in enumerate(providers or ("p",))
    ]
    return {"deployments": deployments, "price": PRICE, **fields}


def pair(name: str) -> dict[str, Any]:
    """One model at two providers, the first of which is tried first."""
    deployments = [
        {"provider": provider, "model": f"up-{name}{place}", "order": place} for place, provider in enumerate(("p", "q"), 1)
    ]
    return {"deployments": deployments, "price": PRICE}


def once(name: str) -> dict[str, Any]:
    """A key that may ask once a minute."""
    return {"name": name, "org": "acme", "secret": f"sk-test-secret-of-{name}", "limits": {"rpm": 1}, "over_limit": {"rpm": 60}}


def chain(**sections: Any) -> dict[str, Any]:
    """Return the settings."""
    models = {
        "A": model("A", aliases=["alias-of-A"], max_n=1),
        "B": model("B", tiers=["default", "over-limit", "flex", "no-limit"]),
        "C": model("C"),
        "D": model("D"),
        "closed": model("closed", "nobody"),
        "half": model("half", "nobody", "p"),
        "T": pair("T"),
        **sections.pop("models", {}),
    }
    found = config({"p": "{upstream}", "q": "{upstream}", "nobody": closed_url()}, models, **{"breaker": FORGIVING, **sections})
    return {**found, "keys": [*found["keys"], once("once"), once("overflow")]}
