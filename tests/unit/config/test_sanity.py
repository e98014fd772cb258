import pytest

from gateway.config.check import check
from tests.unit.config.reading import findings, lines, read


@pytest.mark.parametrize(
    "limit",
    [
        "tpm: 10000000000",
        "rpd: 1000000",
        "rpm: 1000000000, burst_ratio: 0.01",
        "rpm: 2, strict: true",
        "tpm: 100000000, dynamic: {window: 1h}",
    ],
)
def test_limits_that_count_exactly_are_fine(limit: str) -> None:
    assert findings(f"plans: {{p: {{limits: {{{limit}}}}}}}").errors == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("orgs: {a: {limits: {tpm: 9000000000000}}}", "orgs.a.limits.tpm"),
        ("plans: {p: {limits: {per_model: {small: {rpm: 1, strict: true}}}}}", "plans.p.limits.per_model.small.rpm"),
        ("keys: [{name: k, secret: 0123456789abcdef, limits: {tpm_in: 9000000000000}}]", "keys[0].limits.tpm_in"),
        ("plans: {p: {limits: {tpm: 100000000, dynamic: {window: 24h}}}}", "plans.p.limits.tpm"),
        ("plans: {p: {limits: {rpm: 1, dynamic: {window: 0.5s}}}}", "plans.p.limits.dynamic.window"),
        ("plans: {p: {limits: {rpm: 1, dynamic: {ceiling: 1}}}}", "plans.p.limits.dynamic.ceiling"),
        (
            "plans: {p: {limits: {strict: true}}}\nkeys: [{name: k, secret: 0123456789abcdef, plan: p, limits: {rpm: 1}}]",
            "keys[0].limits.rpm",
        ),
    ],
)
def test_limits_are_checked_as_they_hold(text: str, where: str) -> None:
    assert [line.split(":")[0] for line in lines(findings(text).errors)] == [where]


def test_a_strict_limit_below_one_request_is_remarked_on() -> None:
    text = "plans: {p: {limits: {tpm: 6000, strict: true}}, q: {limits: {tpm: 8000, strict: true}}, r: {limits: {tpm: 100}}}"
    assert lines(findings(text).warnings) == [
        "plans.p.limits.tpm: strict leaves 900 tokens at once: less than one usual request (1024)"
    ]


@pytest.mark.parametrize(
    "url",
    [
        "rediss://:secret-word@h:6379/0",
        "unix:///run/valkey.sock",
        "redis+sentinel://:secret-word@h:26379,i/main/1",
        "rediss+cluster://:secret-word@h:7000,i:7001",
    ],
)
def test_a_redis_of_ones_own_on_one_host(url: str) -> None:
    text = f"redis: {{url: '{url}'}}\ndatabase: {{single_host: true}}\nkeys_pepper: 0123456789abcdef"
    assert findings(text).errors == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        *((url, "the scheme is none of redis,") for url in ("http://u:secret-word@h", "", "6379")),
        ("redis://u:secret-word@h/x", "the database of a store is a number"),
        ("redis+sentinel://u:secret-word@h", "a sentinel URL names the primary"),
    ],
)
def test_what_is_no_redis_is_refused_without_showing_it(url: str, why: str) -> None:
    (reported,) = lines(
        findings(f"redis: {{url: '{url}'}}\ndatabase: {{single_host: true}}\nkeys_pepper: 0123456789abcdef").errors
    )
    assert reported.startswith(f"redis.url: expected embedded, or the URL of a store: {why}")
    assert "secret-word" not in reported


def test_rows_are_kept_for_as_long_as_a_budget_is_read_from_them() -> None:
    assert findings("ledger: {retention: 33d, batch: 1}").errors == []
    assert lines(findings("ledger: {retention: 32d}").errors) == [
        "ledger.retention: at least 33d: what a budget of a month has spent is read from its requests where Redis has lost it"
    ]


@pytest.mark.parametrize(
    "url", ["mysql://u:secret-word@h/d", "postgresql://u:secret-word@h", "postgresql:///?host=h", "sqlite:///"]
)
def test_what_is_no_database_is_refused(url: str) -> None:
    reported = lines(findings(f"database: {{url: '{url}'}}").errors)
    assert reported == ["database.url: expected sqlite:///var/tiergate.db or postgresql://user:password@host/name"]


@pytest.mark.parametrize(
    ("name", "value"), [("x y", "v"), ("Host", "v"), ("AUTHORIZATION", "v"), ("x-é", "v"), ("x-a", '"v\\r\\nHost: x"')]
)
def test_a_header_is_one_header(name: str, value: str) -> None:
    text = f"""
providers: {{p: {{base_url: https://a, headers: {{'{name}': {value}}}}}}}
models: {{a: {{deployments: [{{provider: p, model: m}}]}}}}
"""
    assert len(check(read(text)).errors) == 1


def test_two_ports_that_the_system_chooses_are_two() -> None:
    assert findings("api: {port: 0}\nops: {port: 0}").errors == []


def test_proxies_that_are_everybody_are_remarked_on() -> None:
    text = "api: {trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]}\nops: {trusted_proxies: ['::/0']}"
    assert lines(findings(text).warnings) == [
        "api.trusted_proxies[1]: believes everybody: clients can say that they are anywhere",
        "ops.trusted_proxies[0]: believes everybody: clients can say that they are anywhere",
    ]


def test_models_are_remarked_on() -> None:
    text = """
providers: {p: {base_url: http://api.example.com, allow_http: true}}
models: {a: {deployments: [{provider: p, model: m}], timeouts: {first_content: 2m, total: 1m}}}
"""
    assert lines(check(read(text)).warnings) == [
        "providers.p.base_url: the credential and all prompts cross the network in clear",
        "models.a.price: is missing: what this model costs is recorded as unknown",
        "models.a.timeouts.first_content: is longer than total, which ends the request first",
    ]


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("info", "prompts and answers are written to the log, for whoever reads it"),
        ("warning", "writes nothing at level warning: bodies are logged at info"),
    ],
)
def test_that_bodies_are_logged_is_remarked_on(level: str, told: str) -> None:
    text = f"telemetry: {{log_bodies: true, level: {level}}}"
    assert lines(findings(text).errors) == []
    assert lines(findings(text).warnings) == [f"telemetry.log_bodies: {told}"]


def test_a_default_tier_without_entitlement_is_remarked_on() -> None:
    text = """
plans: {p: {tiers: [default], default_tier: flex}}
keys:
  - {name: k, secret: 0123456789abcdef, plan: p}
  - {name: l, secret: 0123456789abcdeg, plan: p, default_tier: auto}
  - {name: m, secret: 0123456789abcdeh, default_tier: no-limit, allow_no_limit: true}
"""
    assert lines(findings(text).warnings) == ["keys[0]: its default tier 'flex' is none of its tiers, so it gets 'default'"]


def test_a_collector_has_a_url() -> None:
    assert lines(findings("telemetry: {otlp_endpoint: 'collector:4318'}").errors) == [
        "telemetry.otlp_endpoint: expected a URL such as http://collector:4318"
    ]
