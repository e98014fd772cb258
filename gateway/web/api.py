"""The API listener: inference by bare ASGI, the models list and health by ordinary handlers, one shape of error for all.

Whatever the framework has to say (unknown paths, wrong methods) is said in the OpenAI envelope too.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, asgi, get
from litestar.handlers import ASGIRouteHandler
from litestar.params import FromPath
from litestar.types import Receive, Scope, Send

from gateway.errors import Internal
from gateway.policy.access import find_model, may_use
from gateway.policy.catalogue import Catalogue, Key
from gateway.web.envelope import render, translated
from gateway.web.inference import Floor, Inference
from gateway.wire.request import Endpoint

ROUTES = {"/v1/chat/completions": Endpoint.CHAT, "/v1/completions": Endpoint.COMPLETIONS}

MODEL_CREATED_S = 1_735_689_600
"""What every model says it was created: a constant, since clients cache by it and a config file knows no better (2025-01-01)."""


class ModelCard(msgspec.Struct, frozen=True):
    """One model as OpenAI's list shows it."""

    id: str
    object: str = "model"
    created: int = MODEL_CREATED_S
    owned_by: str = "tiergate"


class ModelList(msgspec.Struct, frozen=True):
    """OpenAI's list of models."""

    data: list[ModelCard]
    object: str = "list"


class Catalogues(msgspec.Struct, frozen=True):
    """Who asks for models, and what there is: the current catalogue, and the caller's key. Raises `GatewayError`."""

    current: Callable[[], Catalogue]
    authenticate: Callable[[Catalogue, list[tuple[bytes, bytes]], str | None], Key]


class Api:
    """The application of the API listener: an inference endpoint where the path is exactly its own, Litestar for all the rest."""

    def __init__(self, endpoints: Mapping[str, Inference], others: Litestar) -> None:
        self._endpoints: Mapping[str, Inference | Litestar] = {**endpoints}
        self._others = others

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        """Serve one request."""
        return self._endpoints.get(scope["path"], self._others)(scope, receive, send)


def build_api(floor: Floor, catalogues: Catalogues, on_fault: Callable[[str], None]) -> Api:
    """Return the application of the API listener."""
    endpoints = {path: Inference(endpoint, path, floor, on_fault) for path, endpoint in ROUTES.items()}

    def caller(request: Request[Any, Any, Any]) -> tuple[Catalogue, Key]:
        catalogue = catalogues.current()
        address = request.client.host if request.client else None
        return catalogue, catalogues.authenticate(catalogue, list(request.scope["headers"]), address)

    @get("/v1/models", sync_to_thread=False)
    def list_models(request: Request[Any, Any, Any]) -> ModelList:
        """List what the caller's key may use, aliases too."""
        catalogue, key = caller(request)
        return ModelList([ModelCard(name) for name, model in catalogue.names.items() if may_use(key, model)])

    @get("/v1/models/{name:path}", sync_to_thread=False)
    def show_model(request: Request[Any, Any, Any], name: FromPath[str]) -> ModelCard:
        """Show one model; its id may hold slashes, raw or escaped."""
        catalogue, key = caller(request)
        asked = name.removeprefix("/")
        find_model(asked, key, catalogue.names)
        return ModelCard(asked)

    @get("/health", sync_to_thread=False)
    def health() -> dict[str, str]:
        """Say that this worker answers."""
        return {"message": "ok"}

    def identify(response: Response[Any]) -> Response[Any]:
        response.headers["x-request-id"] = floor.clocks.request_id()[0]
        return response

    def answer_error(_: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        told = translated(error)
        response = identify(render(told))
        if isinstance(told, Internal):
            on_fault(response.headers["x-request-id"])
        return response

    others = Litestar(
        route_handlers=[
            *(mount(path, endpoint) for path, endpoint in endpoints.items()),
            list_models,
            show_model,
            health,
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
