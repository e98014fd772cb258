"""The API listener: inference by bare ASGI, models, keys and health by ordinary handlers, one shape of error for all.

Whatever the framework has to say (unknown paths, wrong methods) is said in the OpenAI envelope too.
"""

from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from typing import Any

from litestar import Litestar, MediaType, Request, Response, asgi, get
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from gateway.errors import Internal
from gateway.web.envelope import render, translated
from gateway.web.inference import Floor, Inference, Route
from gateway.web.key import Look, key_route
from gateway.web.models import Catalogues, model_routes
from gateway.web.openapi import document
from gateway.web.overheard import Overheard
from gateway.wire.contracts import OPENAI, Contract
from gateway.wire.request import Endpoint

PATHS = {
    "/chat/completions": Endpoint.CHAT,
    "/completions": Endpoint.COMPLETIONS,
    "/embeddings": Endpoint.EMBEDDINGS,
    "/messages": Endpoint.MESSAGES,
    "/responses": Endpoint.RESPONSES,
}
"""Below a prefix."""


COUNT = "/messages/count_tokens"


def routes(prefixes: Mapping[str, Contract]) -> tuple[Route, ...]:
    """Return every path of inference."""
    asked = (Route(prefix + path, endpoint, each) for prefix, each in prefixes.items() for path, endpoint in PATHS.items())
    counted = (Route(prefix + COUNT, Endpoint.MESSAGES, each, counts=True) for prefix, each in prefixes.items())
    return (*asked, *counted)


def contract_at(path: str, prefixes: Mapping[str, Contract]) -> Contract:
    """Return the contract of the longest prefix that a path is below, OpenAI's where it is below none."""
    above = (prefix for prefix in prefixes if path.startswith(f"{prefix}/"))
    return prefixes.get(max(above, key=len, default=""), OPENAI)


class Api:
    """The application of the API listener: an inference endpoint where the path is exactly its own, Litestar for all the rest."""

    def __init__(self, endpoints: Mapping[str, Inference], others: Litestar) -> None:
        self._endpoints = endpoints
        self._others = others

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        """Serve one request. What may be got may be asked for its head: the server leaves the body out."""
        endpoint = self._endpoints.get(scope["path"])
        if endpoint is not None:
            return endpoint(scope, receive, send)
        got: Any = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        return self._others(got, receive, send)


def build_api(floor: Floor, catalogues: Catalogues, look: Look, on_fault: Callable[[str], None], *, release: str) -> Api:
    """Return the application of the API listener; `look` looks at the buckets of a caller's."""
    prefixes = catalogues.current().prefixes
    served = routes(prefixes)
    kind = Inference if floor.caps.hidden is None else Overheard
    endpoints = {route.path: kind(route, floor, on_fault) for route in served}
    described = document(release, served, prefixes)
    lists = (model_routes(prefix, contract, catalogues) for prefix, contract in prefixes.items())
    own = (key_route(prefix, contract, catalogues, look) for prefix, contract in prefixes.items())

    @get("/health", sync_to_thread=False)
    def health() -> dict[str, str]:
        """Say that this worker answers."""
        return {"message": "ok"}

    @get("/openapi.json", media_type=MediaType.JSON, sync_to_thread=False)
    def describe() -> bytes:
        """Tell what this listener serves."""
        return described

    def identify(response: Response[Any]) -> Response[Any]:
        response.headers["x-request-id"] = floor.clocks.request_id()[0]
        return response

    def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        told = translated(error)
        response = identify(render(told, with_detail=contract_at(request.scope["path"], prefixes).detail))
        if isinstance(told, Internal):
            on_fault(response.headers["x-request-id"])
        return response

    others = Litestar(
        route_handlers=[
            *(mount(path, endpoint) for path, endpoint in endpoints.items()),
            *chain.from_iterable(lists),
            *own,
            health,
            describe,
        ],
        after_request=identify,
        exception_handlers={Exception: answer_error},
        openapi_config=None,
        logging_config=None,
    )
    return Api(endpoints, others)


def mount(path: str, application: Inference) -> ASGIRouteHandler:
    """Return an endpoint as Litestar mounts it, which knows more spellings of its path."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await application(scope, receive, send)  # type: ignore[arg-type]  # Litestar's message types are narrower than ASGI's

    return asgi(path, copy_scope=False)(serve)
