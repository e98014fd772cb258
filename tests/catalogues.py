"""Small catalogues for tests: models, deployments and keys with only what a case is about."""

from typing import Any

from gateway.policy.catalogue import Catalogue, Deployment, Key, Model, Provider, Secret, Tier, TierTerms
from gateway.policy.fallback import Fallback
from gateway.wire.members import split
from gateway.wire.request import Endpoint, InferenceRequest

TERMS = {
    Tier.PRIORITY: TierTerms(price=1.5),
    Tier.DEFAULT: TierTerms(),
    Tier.OVER_LIMIT: TierTerms(headroom=0.85),
    Tier.FLEX: TierTerms(price=0.8, headroom=0.70),
    Tier.NO_LIMIT: TierTerms(),
}


def provider(name: str = "p", *, credentials: int = 1, **fields: Any) -> Provider:
    further = tuple(Secret(f"sk-up-{number}") for number in range(2, credentials + 1))
    return Provider(
        name=name, dialect="openai", base_url="http://127.0.0.1:1/v1", api_key=Secret("sk-up"), further_keys=further, **fields
    )


def deployment(model: str, at: Provider | None = None, **fields: Any) -> Deployment:
    at = at or provider()
    return Deployment(id=f"{model}/{at.name}", provider=at, upstream_model=f"up-{model}", **fields)


def model(name: str, *deployments: Deployment, **fields: Any) -> Model:
    return Model(name=name, deployments=deployments or (deployment(name),), **fields)


def key(**fields: Any) -> Key:
    return Key(**{"id": "k1", "name": "k1", "org": "acme", "plan": "p", "tiers": frozenset(Tier), **fields})


def catalogue(*models: Model, on: tuple[str, ...] = ("capacity", "unavailable"), max_attempts: int = 6) -> Catalogue:
    names = {name: each for each in models for name in (each.name, *each.aliases)}
    return Catalogue(
        models={each.name: each for each in models},
        names=names,
        orgs={},
        keys={},
        tiers=TERMS,
        fallback=Fallback(on=frozenset(on), max_attempts=max_attempts),
    )


def request(*models: str, **fields: Any) -> InferenceRequest:
    """A request for one model, or for a list where several are named."""
    return InferenceRequest(
        **{
            "endpoint": Endpoint.CHAT,
            "members": split(b"{}"),
            "model": models[0] if len(models) == 1 else None,
            "models": models if len(models) > 1 else None,
            "stream": False,
            "service_tier": None,
            "fail_fast": False,
            "max_tokens": None,
            "n": 1,
            "prompts": 1,
            "prompt_tokens": 10,
            "include_usage": None,
            **fields,
        }
    )
