import pytest

from gateway.config.check import check
from gateway.config.secrecy import secrets_of
from gateway.policy.credentials import digest, format_digest
from tests.unit.config.reading import config, findings, lines, read

PEPPER = "0123456789abcdef"
SECRET = "a-secret-of-this-test"


OWN_SECRETS = [
    ("ops: {admin_token: ${X}}", "ops.admin_token"),
    ("keys_pepper: ${X}", "keys_pepper"),
    ("keys: [{name: k, secret: ${X}}]", "keys[0].secret"),
    ("ops: {tokens: [{name: t, role: admin, secret: ${X}}]}", "ops.tokens[0].secret"),
]


@pytest.mark.parametrize(("text", "where"), OWN_SECRETS)
@pytest.mark.parametrize("value", ["fifteen-letters", "sixteen-letters-\n", " sixteen-letters", "sixteen-lettérs-"])
def test_cfg_01_what_protects_nothing_is_refused(text: str, where: str, value: str) -> None:
    assert [line.split(":")[0] for line in lines(findings(text, {"X": value}).errors)] == [where]
    assert value not in "".join(lines(findings(text, {"X": value}).errors))


def test_an_admin_token_may_be_empty_for_loopback_alone() -> None:
    assert findings("ops: {admin_token: ${TOKEN:-}}").errors == []


ONE_PROVIDER = "providers: {p: {base_url: https://a, %s}}\nmodels: {m: {deployments: [{provider: p, model: m}]}}"


def wrong(setting: str, value: str) -> list[str]:
    """Return what is wrong with a provider of this setting, where `X` is this value."""
    return lines(check(read(ONE_PROVIDER % setting, {"X": value})).errors)


@pytest.mark.parametrize("value", ["", "<your-key>", "sk-a\n", "sk-é", " sk-a"])
def test_cfg_01_a_providers_credential_is_one(value: str) -> None:
    assert [line.split(":")[0] for line in wrong("api_key: ${X}", value)] == ["providers.p.api_key"]


@pytest.mark.parametrize("value", ["", "<your-key>", "sk-a\n", "sk-é", " sk-a"])
def test_cfg_01_each_of_a_providers_credentials_is_one(value: str) -> None:
    assert [line.split(":")[0] for line in wrong("api_keys: [sk-b, ${X}]", value)] == ["providers.p.api_keys[1]"]


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("api_keys: [${X}, sk-b]", []),
        ("api_keys: [${X}]", []),
        ("api_keys: []", ["providers.p.api_keys: must not be empty"]),
        (
            "api_keys: [sk-b, '${X}', sk-c, sk-a]",
            ["providers.p.api_keys[3]: is the same as api_keys[1]: one account is no two"],
        ),
        (
            "api_key: sk-b, api_keys: [sk-c, '${X}']",
            ["providers.p.api_keys: stand beside api_key: write all of them here, or that one alone"],
        ),
        (
            f"api_keys: [{', '.join(f'sk-{n}' for n in range(33))}]",
            ["providers.p.api_keys: are 33: at most 32, every request is planned with each"],
        ),
    ],
)
def test_several_credentials_are_several_and_all_there_are(setting: str, found: list[str]) -> None:
    assert wrong(setting, "sk-a") == found


PLACEHOLDERS = [
    "<the-key-of-this-account>", "${THE_KEY_OF_THIS_ACCOUNT}", "${KEY:-of this account}", "$THE_KEY_OF_THIS_ACCOUNT",
    "$(cat the-key-of-this)", "{{ .Values.the.key }}", "%THE_KEY_OF_THIS_ACCOUNT%",
]  # fmt: skip
"""What configurations, shells, orchestrators, charts and batch files leave behind where nobody filled it in."""


@pytest.mark.parametrize("value", PLACEHOLDERS)
def test_cfg_01_a_placeholder_is_no_secret_of_anybodys(value: str) -> None:
    for text, where in OWN_SECRETS:
        [line] = lines(findings(text, {"X": value}).errors)
        assert line.startswith(f"{where}: is a placeholder")
    for setting, where in (
        ("api_key: ${X}", "api_key"),
        ("headers: {authorization-of-ours: ${X}}", "headers.authorization-of-ours"),
    ):
        for scheme in ("", "Bearer ", "bearer  "):
            [line] = wrong(setting, f"{scheme}{value}")
            assert line.startswith(f"providers.p.{where}: is a placeholder")


@pytest.mark.parametrize(
    "value", ["sk-<0123456789>-x", "$ixteen-letters-", "100%-of-the-letters%", "{sixteen-letters}", "a$THE_KEY_OF_THEM"]
)
def test_cfg_01_a_secret_may_have_any_of_their_signs(value: str) -> None:
    assert [found for text, _ in OWN_SECRETS for found in findings(text, {"X": value}).errors] == []
    assert wrong("api_key: ${X}", value) == wrong("headers: {x-of-ours: ${X}}", value) == []


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


TOKEN = "{name: a, role: viewer, secret: sixteen-letters-}"


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        ("[{name: a, role: viewer}]", ["ops.tokens[0]: needs a secret or a digest"]),
        (
            "[{name: a, role: viewer, digest: 'sha256:00'}]",
            ["ops.tokens[0].digest: expected hmac-sha256: and 64 hexadecimal digits"],
        ),
        (
            "[{name: admin, role: viewer, secret: sixteen-letters-}]",
            ["ops.tokens[0].name: 'admin' is what the audit calls another"],
        ),
        (
            "[{name: loopback, role: admin, secret: sixteen-letters-}]",
            ["ops.tokens[0].name: 'loopback' is what the audit calls another"],
        ),
        (f"[{TOKEN}, {TOKEN.replace('sixteen', 'another')}]", [f"ops.tokens[{n}].name: 'a' names 2 tokens" for n in (0, 1)]),
        (f"[{TOKEN}, {TOKEN.replace(': a', ': b')}]", ["ops.tokens[1]: has the same secret as the token 'a'"]),
        ("[{name: a, role: viewer, secret: secret-of-the-key}]", ["ops.tokens[0]: has the same secret as the key 'k'"]),
        ("[{name: a, role: viewer, secret: secret-of-admin-}]", ["ops.tokens[0]: has the same secret as ops.admin_token"]),
        (f"[{TOKEN}]", []),
    ],
)
def test_a_token_of_the_admin_api_is_one_and_nobody_elses(tokens: str, found: list[str]) -> None:
    text = f"ops: {{admin_token: secret-of-admin-, tokens: {tokens}}}\nkeys: [{{name: k, secret: secret-of-the-key}}]"
    assert lines(findings(text).errors) == found


def test_the_admins_token_is_no_key() -> None:
    text = "ops: {admin_token: secret-of-the-key}\nkeys: [{name: k, secret: secret-of-the-key}]"
    assert lines(findings(text).errors) == ["ops.admin_token: has the same secret as the key 'k'"]


def test_all_that_bearers_and_providers_are_known_by_is_found() -> None:
    text = """
ops: {admin_token: an-admin-token-0123, tokens: [{name: t, role: viewer, secret: another-token-0123}]}
keys: [{name: k, secret: a-key-0123456789ab}, {name: d, digest: "hmac-sha256:%s"}]
keys_pepper: a-pepper-0123456789
redis: {url: "redis://:a-password@host"}
""" % ("0" * 64)
    found = config(text.replace("keys:", "database: {url: 'postgresql://u:p@h/d'}\nkeys:", 1))
    assert {secret.reveal() for secret in secrets_of(found)} == {
        "an-admin-token-0123",
        "another-token-0123",
        "a-key-0123456789ab",
        "a-pepper-0123456789",
    }
    provider = (
        "providers: {p: {base_url: 'https://a', api_keys: [a-credential, another-credential], headers: {x-account: an-account}}}"
    )
    whole = read(f"{provider}\nmodels: {{m: {{deployments: [{{provider: p, model: m}}]}}}}").config
    assert {secret.reveal() for secret in secrets_of(whole)} == {"a-credential", "another-credential", "an-account"}
