"""Where a request may carry its key, and what one hears that has none: every carrier, every mix of them."""

import pytest

from tests.fakes.wire import Headers, Wire, post, request
from tests.integration.edge.bad import COUNTED, TYPE, chat
from tests.integration.scene import Scene
from tests.running import SECRET

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUTHORIZATION = "authorization"
OTHERS = ("x-api-key", "xi-api-key", "api-key")
WRONG = "sk-wrong-0123456789"

ADMITTED: list[Headers] = [
    [(AUTHORIZATION, f"Bearer {SECRET}")],
    [(AUTHORIZATION, f"bearer {SECRET}")],
    [(AUTHORIZATION, f"BEARER   {SECRET}")],
    [(AUTHORIZATION, f"Bearer {SECRET} ")],
    [("Authorization", f"Bearer {SECRET}")],
    *([(name, SECRET)] for name in OTHERS),
    [("X-API-Key", SECRET)],
    [(AUTHORIZATION, f"Bearer {SECRET}"), *((name, SECRET) for name in OTHERS)],
    [(AUTHORIZATION, ""), ("x-api-key", SECRET)],
    [(AUTHORIZATION, "Bearer"), ("x-api-key", SECRET)],
    [(AUTHORIZATION, "Basic dXNlcjpwYXNz"), ("api-key", SECRET)],
    [("x-api-key", ""), (AUTHORIZATION, f"Bearer {SECRET}")],
]

REFUSED: list[tuple[Headers, int, str]] = [
    ([], 401, "invalid_api_key"),
    *(([(AUTHORIZATION, word)], 401, "invalid_api_key") for word in ("", "Bearer", "Bearer \t", "Basic dXNlcjpwYXNz", SECRET)),
    ([(AUTHORIZATION, f"Bearer {WRONG}")], 401, "invalid_api_key"),
    ([(AUTHORIZATION, f"Bearer {SECRET.upper()}")], 401, "invalid_api_key"),
    ([(AUTHORIZATION, f"Bearer {SECRET} {SECRET}")], 401, "invalid_api_key"),
    ([(AUTHORIZATION, "Bearer \xff\xfe\xe9 key")], 401, "invalid_api_key"),
    ([(AUTHORIZATION, "Bearer " + "k" * 8_000)], 401, "invalid_api_key"),
    *(([(name, WRONG)], 401, "invalid_api_key") for name in OTHERS),
    ([("cookie", f"api-key={SECRET}")], 401, "invalid_api_key"),
    ([(AUTHORIZATION, f"Bearer {SECRET}"), ("x-api-key", COUNTED)], 400, "invalid_request"),
    ([(AUTHORIZATION, f"Bearer {WRONG}"), ("x-api-key", SECRET)], 400, "invalid_request"),
    ([("x-api-key", SECRET), ("api-key", COUNTED)], 400, "invalid_request"),
    ([(AUTHORIZATION, f"Bearer {SECRET}"), (AUTHORIZATION, f"Bearer {SECRET}")], 400, "invalid_request"),
]


def told(headers: Headers) -> str:
    return (
        " ".join(f"{name}={value.replace(SECRET, 'KEY').replace(COUNTED, 'OTHER')[:24]!r}" for name, value in headers) or "none"
    )


@pytest.mark.parametrize("headers", ADMITTED, ids=told)
async def test_a_key_is_found_in_any_of_its_places(headers: Headers, gate: Scene) -> None:
    async with Wire(gate.run.url) as wire:
        await wire.send(post(chat(), TYPE, *headers))
        assert (await wire.answer()).status == 200
        await wire.send(request("GET", "/v1/models", *headers))
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize(("headers", "status", "code"), REFUSED, ids=lambda value: told(value) if isinstance(value, list) else "")
async def test_what_is_no_key_is_refused_alike_everywhere(headers: Headers, status: int, code: str, gate: Scene) -> None:
    async with Wire(gate.run.url) as wire:
        for data in (
            post(chat(), TYPE, *headers),
            post(b'{"model":"m","prompt":"hi"}', TYPE, *headers, path="/v1/completions"),
            request("GET", "/v1/models", *headers),
            request("GET", "/v1/models/m", *headers),
        ):
            await wire.send(data)
            answer = await wire.answer()
            error = answer.json()["error"]
            assert (answer.status, error["code"], error["type"]) == (status, code, "invalid_request_error")
            assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
            assert not any(secret in answer.body.decode("latin-1") for secret in (SECRET, COUNTED, WRONG, SECRET[:12], "hmac"))
    assert gate.models.asked == []
