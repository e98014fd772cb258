"""The dashboard's own files: read once, sent as they are. They have no secret; what they show they ask the admin API for."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from litestar import Request, Response, Router, get
from litestar.datastructures import ResponseHeader
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

FILES = Path(__file__).parent / "dashboard"
INDEX = "index.html"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain",
}

POLICY = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    )
)
"""Nothing from elsewhere, nothing inline, in nobody's frame; forms are sent by the script, as JSON."""

HEADERS = (
    ResponseHeader(name="content-security-policy", value=POLICY),
    ResponseHeader(name="x-content-type-options", value="nosniff"),
    ResponseHeader(name="referrer-policy", value="no-referrer"),
    ResponseHeader(name="cross-origin-opener-policy", value="same-origin"),
    ResponseHeader(name="cross-origin-resource-policy", value="same-origin"),
    ResponseHeader(name="cache-control", value="no-cache"),  # kept, but asked after: another release has other files
)


class File(msgspec.Struct, frozen=True):
    """One file as it is sent."""

    content: bytes
    media_type: str
    etag: str


def read(path: Path) -> File:
    """Return a file."""
    content = path.read_bytes()
    return File(content, TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')


def pages_router(guard: Callable[..., None]) -> Router:
    """Return the routes of the dashboard. A path is looked up among the files that there are, and never opened."""
    files = {path.relative_to(FILES).as_posix(): read(path) for path in FILES.rglob("*") if path.is_file()}

    def sent(request: Request[Any, Any, Any], name: str) -> Response[bytes]:
        file = files.get(name)
        if file is None:
            raise NotFoundException
        headers = {"etag": file.etag}
        if request.headers.get("if-none-match") == file.etag:
            return Response(b"", status_code=304, headers=headers, media_type=file.media_type)
        return Response(file.content, headers=headers, media_type=file.media_type)

    @get("/", sync_to_thread=False)
    def index(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Return the page."""
        return sent(request, INDEX)

    @get("/dashboard/{name:path}", sync_to_thread=False)
    def one(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
        """Return what the page is made of."""
        return sent(request, name.removeprefix("/"))

    return Router("/", route_handlers=[index, one], guards=[guard], response_headers=HEADERS, include_in_schema=False)
