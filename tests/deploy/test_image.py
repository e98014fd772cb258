"""The Dockerfile by meaning, and the pinning of its base image against a registry on loopback."""

import asyncio
import hashlib
import re
from fnmatch import fnmatch
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.deploy.dockerfile import PATH, Instruction, instructions, stages
from tests.deploy.manifests import said
from tests.deploy.pin import INDEXES, Image, PinError, parsed, pin
from tests.deploy.test_manifests import VERSION
from tests.deploy.tools import ROOT, VENV
from tests.fakes.http_server import Call, HttpServer

TEXT = PATH.read_text()
BUILD, FINAL = stages(TEXT)
INDEX = b'{"schemaVersion": 2, "manifests": []}'
DIGEST = f"sha256:{hashlib.sha256(INDEX).hexdigest()}"


def rests(stage: list[Instruction], word: str) -> list[str]:
    return [each.rest for each in stage if each.word == word]


def test_both_stages_are_one_image_with_a_tag() -> None:
    base = FINAL[0].rest
    assert re.fullmatch(r"python:3\.11-slim-bookworm(@sha256:[0-9a-f]{64})?", base)
    assert BUILD[0].rest == f"{base} AS build"


def test_it_starts_as_nobody_in_particular_and_takes_signals_itself() -> None:
    assert rests(FINAL, "USER") == ["65532:65532"]
    [entry], [command] = rests(FINAL, "ENTRYPOINT"), rests(FINAL, "CMD")
    assert msgspec.json.decode(entry) == ["/opt/tiergate/bin/tiergate"]
    assert msgspec.json.decode(command)[0] == "serve"
    assert not [each for each in instructions(TEXT) if each.word in ("HEALTHCHECK", "ADD", "VOLUME", "SHELL")]


def test_what_it_stands_on_comes_first_and_by_hashes_alone() -> None:
    copied = rests(BUILD, "COPY")
    assert copied[0].startswith("deploy/docker/requirements.lock ")
    assert copied[-1].startswith("gateway")
    installs = [rest for rest in rests(BUILD, "RUN") if " install " in rest]
    assert len(installs) == 2
    assert all("--require-hashes" in rest or "--no-index" in rest for rest in installs)


def pins(path: Path) -> set[str]:
    return set(re.findall(r"^\S+==\S+", path.read_text(), re.MULTILINE))


def test_it_has_what_the_gateway_is_tested_with_and_what_traces_need() -> None:
    own, image = pins(ROOT / "requirements.lock"), pins(PATH.with_name("requirements.lock"))
    assert own < image < pins(ROOT / "requirements-dev.lock"), "`make lock` writes them"
    assert {pin.partition("==")[0] for pin in image - own} >= {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"}


def test_its_labels_are_this_versions() -> None:
    [labels] = rests(FINAL, "LABEL")
    assert f'org.opencontainers.image.version="{VERSION}"' in labels
    assert 'org.opencontainers.image.licenses="Apache-2.0"' in labels


def test_what_is_copied_is_let_in_and_nothing_else() -> None:
    ignored = PATH.with_name("Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {source for rest in rests(BUILD, "COPY") for source in rest.split()[:-1]}
    assert copied == let_in
    assert all((ROOT / source).exists() for source in copied)
    assert any(fnmatch("gateway/__pycache__", line) for line in ignored)


def test_hadolint_has_nothing_to_say() -> None:
    program = VENV / "bin" / "hadolint"
    if not program.exists():
        pytest.skip("hadolint is not fetched yet: `make deploy-check`")
    assert said(str(program), str(PATH)) == ""


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("python:3.11-slim", Image("registry-1.docker.io", "library/python", "3.11-slim")),
        ("circleci/python:3", Image("registry-1.docker.io", "circleci/python", "3")),
        ("localhost/python:3", Image("localhost", "python", "3")),
        ("registry.example.com:5000/a/b:1", Image("registry.example.com:5000", "a/b", "1")),
    ],
)
def test_a_name_leads_to_a_registry(name: str, image: Image) -> None:
    assert parsed(name) == image


class Registry:
    """A registry that wants a token, and says what a test has it say."""

    def __init__(self, *, guarded: bool = True, body: bytes = INDEX, kind: str = INDEXES[0], digest: str = DIGEST) -> None:
        self.guarded = guarded
        self.body = body
        self.kind = kind
        self.digest = digest

    async def __call__(self, call: Call) -> None:
        request = call.request
        if request.path.startswith("/token"):
            assert request.path == "/token?service=here&scope=repository%3Aa%2Fpython%3Apull"
            call.reply(200, b'{"token": "given"}')
        elif self.guarded and request.header("authorization") != "Bearer given":
            realm = f'Bearer realm="http://{request.header("host")}/token",service="here",scope="repository:a/python:pull"'
            call.reply(401, b"{}", [("www-authenticate", realm)])
        elif request.path == "/v2/a/python/manifests/3.11":
            call.reply(200, self.body, [("content-type", self.kind), ("docker-content-digest", self.digest)])
        else:
            call.reply(404, b"{}")


def written(path: Path, name: str) -> None:
    path.write_text(f"# a line\nFROM {name} AS build\n\nFROM {name}\n")


async def pinned(registry: Registry, path: Path, *, tag: str = "3.11", was: str = "") -> str:
    async with HttpServer(registry) as server:
        place = server.base_url.partition("//")[2].partition("/")[0]
        written(path, f"{place}/a/python:{tag}{was}")
        with httpx.Client(trust_env=False) as client:
            found = await asyncio.to_thread(pin, path, client, "http")
        return found.removeprefix(f"{place}/")


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("was", ["", f"@sha256:{64 * '0'}"])
async def test_a_digest_is_written_behind_the_tag(guarded: bool, was: str, tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    assert await pinned(Registry(guarded=guarded), path, was=was) == f"a/python:3.11@{DIGEST}"
    first, build, empty, final = path.read_text().splitlines()
    assert (first, build, empty) == ("# a line", f"{final} AS build", "")
    assert final.endswith(f"/a/python:3.11@{DIGEST}")


@pytest.mark.parametrize(
    ("registry", "tag", "error"),
    [
        (Registry(), "3.12", httpx.HTTPStatusError),
        (Registry(body=INDEX + b" "), "3.11", PinError),
        (Registry(kind="application/vnd.oci.image.manifest.v1+json"), "3.11", PinError),
    ],
)
async def test_a_digest_that_is_not_had_changes_nothing(
    registry: Registry, tag: str, error: type[Exception], tmp_path: Path
) -> None:
    path = tmp_path / "Dockerfile"
    with pytest.raises(error):
        await pinned(registry, path, tag=tag)
    assert "@" not in path.read_text()
