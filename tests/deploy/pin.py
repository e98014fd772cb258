"""`python -m tests.deploy.pin`: write the digest that a tag has today behind the base image of the Dockerfile.

Asks the registry that the image names, Docker's own where it names none, and believes a digest only where it is that of what the
registry sent.
"""

import hashlib
import re
import sys
from pathlib import Path

import httpx
import msgspec

from tests.deploy.dockerfile import PATH

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
"""Of all platforms, so that the digest is the same wherever the image is built."""

BASE = re.compile(r"^FROM (?P<image>[^@\s]+:[^@\s]+)(?:@sha256:[0-9a-f]{64})?(?P<stage> AS \w+)?$", re.MULTILINE)
TIMEOUT_S = 20.0


class Image(msgspec.Struct, frozen=True):
    """A tag at a registry."""

    registry: str
    repository: str
    tag: str


class Token(msgspec.Struct, frozen=True):
    """What a registry's guard gives to who asks."""

    token: str = ""
    access_token: str = ""


class PinError(Exception):
    """A digest that could not be had."""


def parsed(name: str) -> Image:
    """Return where a name leads, such as `python:3.11` or `registry.example.com:5000/a/b:1`."""
    path, _, tag = name.rpartition(":")
    first, _, rest = path.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return Image(first, rest, tag)
    return Image("registry-1.docker.io", path if rest else f"library/{path}", tag)


def token(client: httpx.Client, challenge: str) -> str:
    """Return what a registry that answers 401 wants to see, from where it says."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not challenge.lower().startswith("bearer ") or "realm" not in asked:
        raise PinError(f"the registry asks for what is not known here: {challenge!r}")
    answer = client.get(asked.pop("realm"), params=asked).raise_for_status()
    given = msgspec.json.decode(answer.content, type=Token)
    return given.token or given.access_token


def digest(client: httpx.Client, image: Image, scheme: str = "https") -> str:
    """Return the digest of a tag. Raises PinError or httpx.HTTPError."""
    url, headers = f"{scheme}://{image.registry}/v2/{image.repository}/manifests/{image.tag}", {"accept": ", ".join(INDEXES)}
    answer = client.get(url, headers=headers)
    if answer.status_code == 401:
        headers["authorization"] = f"Bearer {token(client, answer.headers.get('www-authenticate', ''))}"
        answer = client.get(url, headers=headers)
    answer.raise_for_status()
    kind = answer.headers.get("content-type", "")
    if kind not in INDEXES:
        raise PinError(f"{url} is no index of platforms but {kind!r}")
    found = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    said = answer.headers.get("docker-content-digest", found)
    if said != found:
        raise PinError(f"the registry says {said} of what has {found}")
    return found


def pin(path: Path, client: httpx.Client, scheme: str = "https") -> str:
    """Write the digest into a Dockerfile, and return the image with it. Where there is none the file stays as it is."""
    text = path.read_text()
    [name] = {found["image"] for found in BASE.finditer(text)}
    pinned = f"{name}@{digest(client, parsed(name), scheme)}"
    path.write_text(BASE.sub(lambda found: f"FROM {pinned}{found['stage'] or ''}", text))
    return pinned


def main() -> int:
    """Pin. Return the exit code."""
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
        try:
            print(pin(PATH, client))
        except (PinError, httpx.HTTPError) as error:
            print(f"the image is not pinned: {error}", file=sys.stderr)
            return 69
    return 0


if __name__ == "__main__":
    sys.exit(main())
