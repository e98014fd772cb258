import pytest

from gateway.policy.catalogue import Provider, Secret
from gateway.providers.redaction import account_names, redacted


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("see https://internal.acme.io/x?key=1 for more", "see [redacted] for more"),
        ("worker 10.1.2.3:8000 said no", "worker [redacted] said no"),
        ("worker-7.internal.example said no", "[redacted] said no"),
        ("at gpu-node.cluster-4:8000", "at [redacted]"),
        ("key sk-up-1234abcd is no good", "key [redacted] is no good"),
        ("for org-AbC123456 only", "for [redacted] only"),
        ("token 0123456789abcdef0123456789abcdef01", "token [redacted]"),
        ("The UP-NAT cannot do that", "The [redacted] cannot do that"),
        ("messages.0.content must be text, e.g. 'a'", "messages.0.content must be text, e.g. 'a'"),
        ("two\n\tlines\x00", "two lines"),
        ("<!DOCTYPE html><p>no", ""),
    ],
)
def test_what_gives_a_provider_away_is_redacted(message: str, shown: str) -> None:
    assert redacted(message, ["up-nat"]) == shown


def test_the_short_name_of_an_upstream_model_is_redacted_too() -> None:
    assert redacted("Llama-9 has no tools", ["meta/Llama-9"]) == "[redacted] has no tools"


def test_a_message_is_shortened() -> None:
    assert len(redacted("ab " * 900, ["", "x"])) == 500


def test_a_name_inside_a_word_is_no_name() -> None:
    assert redacted("o1 in proto1 or o1-mini", ["o1"]) == "[redacted] in proto1 or o1-mini"


HIDDEN = account_names(
    Provider(
        name="p",
        dialect="openai",
        base_url="http://vllm:8000/v1",
        api_key=Secret("letmein"),
        further_keys=(Secret("opensesame"),),
        headers={"x-tenant": "blue-whale-corner", "x-version": "2"},
    )
)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no token 'letmein' at vllm:8000", "no token '[redacted]' at [redacted]"),
        ("tenant=blue-whale-corner, vllm 2 is busy", "tenant=[redacted], vllm 2 is busy"),
        ("letmeinside", "letmeinside"),
        ("not 'opensesame' either", "not '[redacted]' either"),
    ],
)
def test_our_own_account_is_known_by_value(message: str, shown: str) -> None:
    assert redacted(message, HIDDEN) == shown


def test_a_host_with_a_domain_is_hidden_without_its_port_too() -> None:
    at = Provider(name="p", dialect="openai", base_url="https://inference.acme.museum:8443/v1", api_key=Secret(""))
    assert account_names(at) == ("inference.acme.museum:8443", "inference.acme.museum")
    assert redacted("inference.acme.museum said no", account_names(at)) == "[redacted] said no"
