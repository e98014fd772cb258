import pytest

from gateway.config.check import check
from gateway.policy.credentials import digest, format_digest
from tests.unit.config.reading import findings, lines, read

PEPPER = "0123456789abcdef"
SECRET = "a-secret-of-this-test"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("ops: {admin_token: ${X}}", "ops.admin_token"),
        ("keys_pepper: ${X}", "keys_pepper"),
        ("keys: [{name: k, secret: ${X}}]", "keys[0].secret"),
    ],
)
@pytest.mark.parametrize("value", ["fifteen-letters", "sixteen-letters-\n", " sixteen-letters", "sixteen-lettérs-"])
def test_cfg_01_what_protects_nothing_is_refused(text: str, where: str, value: str) -> None:
    assert [line.split(":")[0] for line in lines(findings(text, {"X": value}).errors)] == [where]
    assert value not in "".join(lines(findings(text, {"X": value}).errors))


def test_an_admin_token_may_be_empty_for_loopback_alone() -> None:
    assert findings("ops: {admin_token: ${TOKEN:-}}").errors == []


@pytest.mark.parametrize("value", ["", "<your-key>", "sk-a\n", "sk-é", " sk-a"])
def test_cfg_01_a_providers_credential_is_one(value: str) -> None:
    text = "providers: {p: {base_url: https://a, api_key: ${X}}}\nmodels: {m: {deployments: [{provider: p, model: m}]}}"
    assert [problem.where for problem in check(read(text, {"X": value})).errors] == ["providers.p.api_key"]


def test_a_secret_and_the_digest_of_it_are_one_key() -> None:
    known = format_digest(digest(PEPPER.encode(), SECRET))
    text = f"keys_pepper: '{PEPPER}'\nkeys: [{{name: a, secret: {SECRET}}}, {{name: b, digest: '{known}'}}]"
    assert lines(findings(text).errors) == ["keys[1]: has the same secret as the key 'a'"]


def test_a_key_has_one_proof() -> None:
    known = format_digest(digest(PEPPER.encode(), "another-secret-of-this-test"))
    text = f"keys: [{{name: a, secret: {SECRET}, digest: '{known}'}}, {{name: b, secret: [1]}}]"
    assert lines(findings(text).errors) == [
        "keys[0]: has a secret and a digest: one is enough",
        "keys[1].secret: expected text, got a list",
    ]
