"""Vectors as the client wants them, however they came."""

import struct
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.faults import Failed, Fault
from gateway.policy.catalogue import Deployment, Provider, Quirks, Secret, Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.providers.embeddings import NoVectorError, as_base64, as_numbers
from gateway.providers.openai import OpenAI
from gateway.providers.protocol import Answer, Edits
from gateway.wire.request import Endpoint, parse
from gateway.wire.usage import Usage

TIERS = {Tier.DEFAULT: "on_demand"}
PLAIN = Provider(
    name="p",
    dialect="openai",
    base_url="http://up.example/v1",
    api_key=Secret("sk-up"),
    tiers=TIERS,
    endpoints=frozenset({Endpoint.EMBEDDINGS}),
)
EDITS = Edits(endpoint=Endpoint.EMBEDDINGS, model="public", tier="default", id="ours", show_usage=False, upstream_model="up-m")
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
USAGE = {"prompt_tokens": 9, "total_tokens": 9}


def packed(*numbers: float) -> str:
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def body(*vectors: object, **members: object) -> bytes:
    data = [{"object": "embedding", "index": place, "embedding": each} for place, each in enumerate(vectors)]
    found = {"object": "list", "data": data, "model": "up-m", "usage": USAGE} | members
    return msgspec.json.encode({name: value for name, value in found.items() if value is not ...})


def read(sent: bytes, **edits: Any) -> Answer | Failed:
    count = edits.pop("choices", 1)
    return OpenAI(PLAIN).answer(sent, msgspec.structs.replace(EDITS, choices=count, **edits))


def answer(sent: bytes, **edits: Any) -> Answer:
    found = read(sent, **edits)
    assert isinstance(found, Answer)
    return found


def vectors(found: Answer) -> list[Any]:
    return [each["embedding"] for each in msgspec.json.decode(found.body)["data"]]


def call(provider: Provider = PLAIN, **fields: object) -> dict[str, object]:
    request = parse(Endpoint.EMBEDDINGS, msgspec.json.encode({"model": "public", "input": "x", **fields}))
    deployment = Deployment(id="d", provider=provider, upstream_model="up-m")
    found = OpenAI(provider).call(request, deployment, Tier.DEFAULT, last=False)
    assert (found.path, found.dropped) == ("/embeddings", ())
    sent: dict[str, object] = msgspec.json.decode(found.body)
    return sent


class TestCall:
    def test_nothing_is_asked_for_that_is_not_known_to_be_understood(self) -> None:
        """Neither a tier nor `fail_fast` is a word of this endpoint, wherever else the provider knows them."""
        eager = msgspec.structs.replace(PLAIN, quirks=Quirks(fail_fast=True))
        sent = call(eager, encoding_format="base64", service_tier="auto", fail_fast=True, models=["public"])
        assert sent == {"model": "up-m", "input": "x"}

    def test_the_clients_own_fields_go_along(self) -> None:
        assert call(dimensions=256, user="u", x_vendor=1) == {
            "model": "up-m",
            "input": "x",
            "dimensions": 256,
            "user": "u",
            "x_vendor": 1,
        }

    @pytest.mark.parametrize("wanted", ["float", "base64"])
    def test_a_provider_that_knows_base64_is_asked_for_what_the_client_wants(self, wanted: str) -> None:
        able = msgspec.structs.replace(PLAIN, quirks=Quirks(embeddings_base64=True))
        assert call(able, encoding_format=wanted)["encoding_format"] == wanted
        assert "encoding_format" not in call(able)


class TestAnswer:
    @pytest.mark.parametrize("base64", [False, True])
    @pytest.mark.parametrize("comes", ["numbers", "base64"])
    def test_vectors_are_what_was_asked_for(self, comes: str, base64: bool) -> None:
        rows = [(0.5, -1.25, 3.0), (0.1, 0.0, -0.0)]
        found = answer(body(*(packed(*row) if comes == "base64" else row for row in rows)), choices=2, base64=base64)
        if base64:
            assert vectors(found) == [packed(*row) for row in rows]
        else:
            assert [packed(*row) for row in vectors(found)] == [packed(*row) for row in rows]

    @pytest.mark.parametrize(("base64", "vector"), [(False, b"[1.50, -2e-3,1E2 ]"), (True, b'"AAAAPw=="')])
    def test_what_comes_as_it_is_wanted_keeps_its_bytes(self, base64: bool, vector: bytes) -> None:
        rest = b'"object": "list",\n"data": [ {"embedding":' + vector + b', "index":0, "x": 1.50} ], "x_vendor": [1.0]'
        found = answer(b'{"model": "up-m", ' + rest + b"}", base64=base64)
        assert found.body == b'{"model": "public", ' + rest + b',"service_tier":"default"}'
        assert (found.usage, found.tier, found.output_bytes) == (None, None, 0)

    def test_only_what_has_to_change_is_written_anew(self) -> None:
        item = b'{"index": 7 ,"object":"embedding", "embedding":[0.5], "x": 1.50}'
        found = answer(b'{"data": [' + item + b', {"embedding" : "AAAAPw==","index":3}]}', choices=2, base64=True)
        first = item.replace(b"[0.5]", b'"AAAAPw=="')
        assert found.body.startswith(b'{"data": [' + first + b',{"embedding" : "AAAAPw==","index":3}]')
        assert [each["index"] for each in msgspec.json.decode(found.body)["data"]] == [7, 3], "the order is the provider's"

    def test_usage_is_input_alone(self) -> None:
        tariff = Tariff(Price(input=1_000, output=5_000))
        found = answer(body([0.5], usage={**USAGE, "completion_tokens": 4, "cost": 1}), tariff=tariff)
        assert found.usage == Usage(input=9, output=0)
        told = msgspec.json.decode(found.body)["usage"]
        assert (told["estimated_cost"], "cost" in told) == (9_000 / 10**9, False)

    @pytest.mark.parametrize(
        ("usage", "tokens"),
        [
            ({"prompt_tokens": 9}, 9),
            ({"total_tokens": 9}, 9),
            ({"prompt_tokens": None, "total_tokens": 9}, 9),
            ({"prompt_tokens": 9, "completion_tokens": None, "total_tokens": 12}, 9),
            ({"prompt_tokens": 0, "total_tokens": 0}, None),
            ({}, None),
            (None, None),
            ("nine", None),
            (..., None),
        ],
    )
    def test_usage_as_providers_tell_it(self, usage: object, tokens: int | None) -> None:
        found = answer(body([0.5], usage=usage))
        assert (None if found.usage is None else found.usage.input) == tokens

    def test_no_id_and_no_word_for_the_tier_are_made_up_or_heard(self) -> None:
        found = answer(body([0.5], service_tier="slow"))
        told = msgspec.json.decode(found.body)
        assert (told["service_tier"], told["model"], "id" in told, found.tier) == ("default", "public", False, None)

    @pytest.mark.parametrize(
        "sent",
        [
            pytest.param(body(), id="no vector, as some answer who do not know base64"),
            pytest.param(body([0.5]), id="fewer vectors than inputs"),
            pytest.param(body([0.5], [0.5], [0.5]), id="more vectors than inputs"),
            pytest.param(body(data=None), id="no data"),
            pytest.param(body(data=...), id="no data at all"),
            pytest.param(body(data=[{"index": 0}, {"index": 1}]), id="no vector inside"),
            pytest.param(body([0.5], None), id="a vector that is null"),
            pytest.param(body([0.5], [0.5, None]), id="a number that is null"),
            pytest.param(body([0.5], [[0.5]]), id="a vector for each token"),
            pytest.param(body([0.5], [1e39]), id="a number beyond float32"),
            pytest.param(b"[]", id="no object"),
            pytest.param(b"<html>", id="no JSON"),
            pytest.param(b'{"data":[' + b"[" * 2_000 + b"]" * 2_000 + b"]}", id="nested beyond reason"),
        ],
    )
    def test_what_is_no_answer(self, sent: bytes) -> None:
        assert read(sent, choices=2, base64=True) == Failed(fault=Fault.BAD_ANSWER, status=200)

    @pytest.mark.parametrize("vector", [None, 5, "AAAA", "AAAAPw", "AA*APw==", "ä", packed(float("nan")), packed(float("inf"))])
    def test_what_is_no_base64_of_numbers(self, vector: object) -> None:
        assert read(body(vector)) == Failed(fault=Fault.BAD_ANSWER, status=200)

    def test_an_error_inside_a_200_keeps_its_class(self) -> None:
        said = {
            "error": {"message": "Input too long for up-m", "code": "context_length_exceeded", "type": "invalid_request_error"}
        }
        found = read(msgspec.json.encode(said))
        assert isinstance(found, Failed)
        assert (found.fault, found.status, found.code) == (Fault.REJECTED, 400, "context_length_exceeded")
        assert "up-m" not in found.message


@given(st.lists(FLOAT32, max_size=40))
def test_float32_survive_both_ways(numbers: list[float]) -> None:
    written = msgspec.json.encode(numbers)
    assert as_base64(written) == msgspec.json.encode(packed(*numbers))
    there = as_numbers(as_base64(written))
    assert struct.pack(f"<{len(numbers)}f", *msgspec.json.decode(there, type=list[float])) == struct.pack(
        f"<{len(numbers)}f", *numbers
    )
    assert as_base64(there) == as_base64(written)


@given(st.lists(st.floats(min_value=-3.0e38, max_value=3.0e38), max_size=20))
def test_any_number_becomes_the_nearest_float32(numbers: list[float]) -> None:
    found = msgspec.json.decode(as_numbers(as_base64(msgspec.json.encode(numbers))), type=list[float])
    assert [struct.pack("<f", each) for each in found] == [struct.pack("<f", each) for each in numbers]


@given(st.binary(max_size=24))
def test_bytes_are_numbers_or_refused(raw: bytes) -> None:
    try:
        found = as_numbers(b'"' + b64encode(raw) + b'"')
    except NoVectorError:
        return
    assert as_base64(found) == b'"' + b64encode(raw) + b'"'
