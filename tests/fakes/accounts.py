"""A provider that knows its callers' credentials: what it says to each, and who came with which, in order."""

from collections.abc import Mapping
from typing import Any

from tests.fakes.anthropic import Both
from tests.fakes.http_server import Call, Request, Script


def credential_of(request: Request) -> str:
    """Return the credential that came with a request, in whichever header."""
    bearer = (request.header("authorization") or "").removeprefix("Bearer ")
    return bearer or request.header("x-api-key") or request.header("api-key") or ""


class Accounts(Both):
    """`of` is what a credential hears, where it is not the usual; `came` are those that came."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, Script] = {}
        self.came: list[str] = []

    async def __call__(self, call: Call) -> None:
        credential = credential_of(call.request)
        self.came.append(credential)
        if credential in self.of:
            await self.of[credential](call)
        else:
            await super().__call__(call)

    def forget(self) -> None:
        """Go back to the beginning."""
        super().forget()
        self.of.clear()
        self.came.clear()


def credentials(name: str, count: int) -> list[str]:
    """Return so many credentials of a provider; no one is part of another."""
    return [f"sk-up-{name}-{number}-of-{count}" for number in range(1, count + 1)]


def with_credentials(settings: Mapping[str, Any], **counts: int) -> dict[str, Any]:
    """Return settings whose providers have so many credentials."""
    found = {name: dict(each) for name, each in settings["providers"].items()}
    for name, count in counts.items():
        del found[name]["api_key"]
        found[name]["api_keys"] = credentials(name, count)
    return {**settings, "providers": found}
