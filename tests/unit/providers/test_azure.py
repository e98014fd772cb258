import msgspec
import pytest

from gateway.policy.catalogue import Deployment, Provider, Secret, Tier
from gateway.providers.azure import Azure
from gateway.providers.protocol import Call
from gateway.wire.request import Endpoint, parse

V1 = Provider(name="p", dialect="azure", base_url="https://n.openai.azure.com/openai/v1", api_key=Secret("sk-upstream"))
CLASSIC = msgspec.structs.replace(V1, base_url="https://n.openai.azure.com/openai", api_version="2024-10-21")


def call(of: Provider, name: str = "my-gpt", body: bytes = b'{"model": "m", "messages": [{"role":"user"}], "x": 1.50}') -> Call:
    endpoint = Endpoint.COMPLETIONS if b'"prompt"' in body else Endpoint.CHAT
    return Azure(of).call(parse(endpoint, body), Deployment(id="d", provider=of, upstream_model=name), Tier.DEFAULT, last=True)


def test_the_credential_has_a_header_of_its_own() -> None:
    found = dict(call(V1).headers)
    assert found[b"api-key"] == b"sk-upstream"
    assert b"authorization" not in found
    assert b"api-key" not in dict(call(msgspec.structs.replace(V1, api_key=Secret(""))).headers)


def test_the_v1_endpoint_is_openais() -> None:
    assert call(V1).path == "/chat/completions"
    assert call(V1).body == b'{"model": "my-gpt", "messages": [{"role":"user"}], "x": 1.50}'


def test_the_classic_endpoint_names_the_deployment_in_its_path() -> None:
    found = call(CLASSIC)
    assert found.path == "/deployments/my-gpt/chat/completions?api-version=2024-10-21"
    assert found.body == b'{"messages": [{"role":"user"}], "x": 1.50}'


def test_completions_go_by_their_own_path_or_by_that_of_chat() -> None:
    native = msgspec.structs.replace(CLASSIC, endpoints=frozenset({Endpoint.COMPLETIONS}))
    assert call(native, body=b'{"model":"m","prompt":"x"}').path == "/deployments/my-gpt/completions?api-version=2024-10-21"
    over_chat = call(CLASSIC, body=b'{"model":"m","prompt":"x"}')
    assert over_chat.path == "/deployments/my-gpt/chat/completions?api-version=2024-10-21"
    assert b'"messages"' in over_chat.body


@pytest.mark.parametrize("name", ["../x", "a b", "a?b", "a#b", "a%2fb", "é"])
def test_no_name_leads_elsewhere(name: str) -> None:
    path = call(CLASSIC, name).path
    assert path.isascii()
    assert path.count("/") == "/deployments/x/chat/completions".count("/")
    assert (path.count("?"), path.count("#"), path.count(" ")) == (1, 0, 0)
