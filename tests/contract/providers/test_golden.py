"""Golden bytes: what comes from an upstream, what goes to the client. One folder a dialect, named as configurations name it.

`dialect.json` is about the provider. A case is a folder with `case.json` and the bytes themselves. `stream` cases have `in.sse`
and `out.sse`, `answer` cases `in.json` and `out.json`, `call` cases the client's `in.json` and the upstream's `out.json`,
`failure` cases `in.json`. Without an `out` nothing goes out.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from gateway.faults import Failed
from gateway.policy.catalogue import Deployment, Provider, Quirks, Secret, Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import echoes
from gateway.providers import DIALECTS, NATURES
from gateway.providers.protocol import Answer, Dialect, Edits, StreamReader
from gateway.wire.request import Endpoint, parse

HERE = Path(__file__).parent


class Speaker(msgspec.Struct, forbid_unknown_fields=True):
    """The provider of a dialect's cases: the one header that carries its credential, and its words for tiers."""

    credential: dict[str, str]
    tiers: dict[Tier, str]


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """What a case says about a failure, where one is expected."""

    fault: str
    status: int = 200
    message: str = ""
    param: str | None = None
    code: str | None = None
    retry_after_ms: int | None = None


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """How to play a case, and what else to expect of it."""

    kind: str
    shows: str
    endpoint: Endpoint = Endpoint.CHAT
    show_usage: bool = False
    tier: Tier = Tier.DEFAULT
    last: bool = True
    quirks: Quirks = Quirks()
    endpoints: frozenset[Endpoint] = frozenset(Endpoint)
    path: str = ""
    status: int = 400
    headers: dict[str, str] = {}
    failed: Expected | None = None
    tokens: tuple[int, int] | None = None
    api_version: str | None = None
    dropped: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()


def cases(kind: str) -> list[object]:
    found: list[object] = []
    for path in sorted(HERE.glob("*/*/case.json")):
        case = msgspec.json.decode(path.read_bytes(), type=Case)
        if case.kind == kind:
            found.append(pytest.param(path.parent, case, id=f"{path.parent.parent.name}-{path.parent.name}"))
    return found


def golden(folder: Path, name: str) -> bytes:
    path = folder / name
    return path.read_bytes() if path.exists() else b""


def speaker(folder: Path) -> Speaker:
    return msgspec.json.decode((folder.parent / "dialect.json").read_bytes(), type=Speaker)


def dialect(folder: Path, case: Case) -> tuple[Dialect, Provider]:
    provider = Provider(
        name="p",
        dialect=folder.parent.name,
        nature=NATURES[folder.parent.name],
        base_url="https://up.example/v1",
        api_version=case.api_version,
        api_key=Secret("sk-upstream"),
        tiers=speaker(folder).tiers,
        quirks=case.quirks,
        endpoints=case.endpoints,
    )
    return DIALECTS[provider.dialect](provider), provider


def edits(case: Case, provider: Provider) -> Edits:
    return Edits(
        endpoint=case.endpoint,
        model="public/model",
        tier=str(case.tier),
        id="made-1",
        created_s=1_700_000_000,
        show_usage=case.show_usage,
        tariff=Tariff(Price(input=1000, output=2000, cached_input=500), echoes=echoes(case.tier, provider, {})),
        upstream_model="up/internal",
    )


def credential(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers if b"sk-upstream" in value}


def told(failed: Failed) -> Expected:
    return Expected(str(failed.fault), failed.status, failed.message, failed.param, failed.code, failed.retry_after_ms)


def play(reader: StreamReader, pieces: list[bytes]) -> tuple[bytes, Failed | None]:
    out = b""
    for piece in pieces:
        step = reader.feed(piece)
        out += step.out
        if step.failed is not None or reader.done:
            return out, step.failed
    step = reader.end()
    return out + step.out, step.failed


@pytest.mark.parametrize(("folder", "case"), cases("stream"))
def test_streams(folder: Path, case: Case) -> None:
    body = golden(folder, "in.sse")
    speaks, provider = dialect(folder, case)
    for pieces in ([body], [bytes([byte]) for byte in body], [body[at : at + 50] for at in range(0, len(body), 50)]):
        reader = speaks.reader(edits(case, provider))
        out, failed = play(reader, pieces)
        assert out == golden(folder, "out.sse")
        assert (None if failed is None else told(failed)) == case.failed
        assert case.tokens == (None if reader.usage is None else (reader.usage.input, reader.usage.output))


@pytest.mark.parametrize(("folder", "case"), cases("answer"))
def test_answers(folder: Path, case: Case) -> None:
    speaks, provider = dialect(folder, case)
    found = speaks.answer(golden(folder, "in.json"), edits(case, provider))
    if isinstance(found, Answer):
        assert found.body == golden(folder, "out.json")
        assert case.failed is None
        assert case.tokens == (None if found.usage is None else (found.usage.input, found.usage.output))
    else:
        assert told(found) == case.failed


@pytest.mark.parametrize(("folder", "case"), cases("call"))
def test_calls(folder: Path, case: Case) -> None:
    speaks, provider = dialect(folder, case)
    request = parse(case.endpoint, golden(folder, "in.json"))
    found = speaks.call(request, Deployment(id="d", provider=provider, upstream_model="up/internal"), case.tier, last=case.last)
    assert found.body == golden(folder, "out.json")
    assert found.path == case.path
    assert (found.dropped, found.lowered) == (case.dropped, case.lowered)
    assert credential(found.headers) == speaker(folder).credential


@pytest.mark.parametrize(("folder", "case"), cases("failure"))
def test_failures(folder: Path, case: Case) -> None:
    speaks, _ = dialect(folder, case)
    headers = {name.encode(): value.encode() for name, value in case.headers.items()}
    found = speaks.failure(case.status, headers, golden(folder, "in.json"), upstream_model="up/internal")
    assert told(found) == case.failed


def test_every_dialect_has_cases_of_every_kind() -> None:
    kinds = {
        name: {msgspec.json.decode(path.read_bytes(), type=Case).kind for path in HERE.glob(f"{name}/*/case.json")}
        for name in DIALECTS
    }
    assert kinds == {name: {"stream", "answer", "call", "failure"} for name in DIALECTS}
