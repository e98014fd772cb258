"""What carries a secret or a prompt shows neither where it is printed, in a traceback for one."""

from collections.abc import Callable

import pytest

from gateway.pipeline import Visit
from gateway.policy.record import Record
from gateway.providers.protocol import Call
from gateway.stores.minted import Changed, KeyView
from gateway.stores.tenancy import Means
from gateway.upstream.transport import Outgoing
from gateway.watch import Sweep
from gateway.wire.contracts import OPENAI
from gateway.wire.members import split
from gateway.wire.request import Endpoint
from tests.catalogues import catalogue, deployment, model, provider, request

MARK = "marked-word"
HEADERS = ((b"authorization", b"Bearer marked-word"),)
BODY = b'{"messages":"marked-word"}'
SPECIAL = provider(headers={"x-key": MARK}, proxy=f"http://user:{MARK}@proxy.test")


VIEW = KeyView(
    id="k",
    name="ci",
    org="acme",
    plan=None,
    state="active",
    definition={},
    source="minted",
    secrets=(),
    created_unix_ms=0,
    updated_unix_ms=0,
    expires_unix_ms=None,
    revoked_unix_ms=None,
    blocked_unix_ms=None,
    last_used_unix_ms=None,
)


def visit() -> Visit:
    async def body() -> bytes:
        return BODY

    return Visit(
        endpoint=Endpoint.CHAT,
        contract=OPENAI,
        headers=[*HEADERS],
        fields=dict(HEADERS),
        query=b"marked-word",
        address=None,
        check=lambda: None,
        body=body,
        keep_alive=lambda _: None,
        watch=Sweep(lambda: 0.0).open(),
        record=Record(request_id="r1", route="/", started_s=0.0, started_unix_ms=0),
        dice=0,
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Outgoing(path="/p", headers=HEADERS, body=BODY),
        lambda: Call(path="/p", headers=HEADERS, body=BODY),
        lambda: SPECIAL,
        lambda: catalogue(model("m", deployment("m", SPECIAL))),
        lambda: request("m", members=split(BODY), fields={"messages": MARK}),
        visit,
        lambda: Means(MARK.encode(), bytes, int),
        lambda: Changed(key=VIEW, told=True, secret=MARK),
    ],
    ids=["outgoing", "call", "provider", "catalogue", "request", "visit", "means", "changed"],
)
async def test_it_is_printed_without_what_it_carries(make: Callable[[], object]) -> None:
    assert MARK not in repr(make())
