"""What schemathesis cannot know from the document: which names mean something here. It is loaded by schemathesis itself."""

import os
from typing import Any

import schemathesis  # type: ignore[import-not-found]

from tests.openapi.common import MODEL, PROJECT, REPORT

NAMES = {"model": MODEL, "service_tier": "default"}


@schemathesis.hook  # type: ignore[untyped-decorator]
def map_body(_: Any, body: Any) -> Any:
    """Give what is a name anyway one that is known, and write whole numbers as such: 2.0 is one to a schema alone."""
    if not isinstance(body, dict):
        return body
    known = {name: NAMES[name] if name in NAMES and isinstance(value, str) else value for name, value in body.items()}
    listed = known.get("models")
    if isinstance(listed, list) and listed and all(isinstance(name, str) for name in listed):
        known["models"] = [MODEL] * len(listed)
    return whole(known)


@schemathesis.hook  # type: ignore[untyped-decorator]
def map_query(_: Any, query: Any) -> Any:
    """Name the project that there is."""
    return {name: PROJECT if name == "ai_project_id" else value for name, value in (query or {}).items()}


@schemathesis.hook  # type: ignore[untyped-decorator]
def map_headers(_: Any, headers: Any) -> Any:
    """Send one key: a second one in another of its places is refused."""
    return {name: value for name, value in (headers or {}).items() if not name.lower().endswith("api-key")}


@schemathesis.hook  # type: ignore[untyped-decorator]
def after_call(_: Any, __: Any, response: Any) -> None:
    """Note what became of a request."""
    with open(os.environ[REPORT], "a", encoding="ascii") as report:
        print(response.status_code, file=report)


def whole(value: Any) -> Any:
    """Return a value with every number that has no fraction as an integer."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    return {name: whole(item) for name, item in value.items()} if isinstance(value, dict) else value
