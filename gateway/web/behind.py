"""A listener behind proxies that it trusts: the client in a request's scope is whom they were asked by."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gateway.policy.forwarding import Proxies

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def behind(networks: Sequence[str], application: Asgi) -> Asgi:
    """Return the application as it is behind the proxies of these networks: itself where there are none."""
    return Behind(Proxies(networks), application) if networks else application


class Behind:
    """An application behind proxies."""

    def __init__(self, proxies: Proxies, application: Asgi) -> None:
        self._proxies = proxies
        self._application = application

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        """Serve one request."""
        peer = scope["client"]
        address = self._proxies.client(peer[0] if peer else None, scope["headers"])
        # No port: which one the client has is not told.
        scope["client"] = None if address is None else (address, 0)
        return self._application(scope, receive, send)
