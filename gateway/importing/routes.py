"""Which of our endpoints a list of LiteLLM's routes allows."""

from collections.abc import Iterable

ENDPOINTS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
}
_ALL = frozenset({"llm_api_routes", "openai_routes", "*", "/*", "/v1/*"})
"""Words for all of them."""


def endpoints(routes: Iterable[object]) -> frozenset[str]:
    """Return the endpoints that routes allow, written with `/v1` before them or without."""
    named = {str(route) for route in routes}
    if named & _ALL:
        return frozenset(ENDPOINTS.values())
    whole = {route if route.startswith("/v1") else f"/v1{route}" for route in named}
    return frozenset(endpoint for route, endpoint in ENDPOINTS.items() if route in whole)
