"""What operators are shown of a configuration: all of it, in the file's own words, but no secret."""

from typing import Any

import msgspec

from gateway.config.shown import said, whole
from tests.unit.config.reading import config, read

FULL = """
ops:
  admin_token: secret-of-the-admin-1
  hosts: [ops.example.com]
  tokens: [{name: look, role: viewer, secret: secret-of-a-viewer}]
api: {trusted_proxies: [10.0.0.0/8], keep_alive: 90s}
limits: {body: 20MiB}
keys_pepper: secret-pepper-0123
redis: {url: "redis://:secret-of-redis@host", timeout: 50ms}
database: {url: "postgresql://u:secret-of-sql@h/db"}
plans: {free: {limits: {rpm: 20, burst_ratio: 0.5}, keepalive: 10s, over_limit: {rpm: 5}, budget: {usd: 1.5}}}
orgs: {acme: {plan: free, projects: {search: {tier: default}}}}
keys:
  - {name: a, org: acme, secret: secret-of-a-key-01, expires: 2027-01-01, ips: [10.0.0.0/8]}
  - {name: b, digest: "hmac-sha256:0000000000000000000000000000000000000000000000000000000000005ec2"}
telemetry: {otlp_endpoint: "http://collector:4318"}
"""


def test_no_secret_is_shown() -> None:
    shown = msgspec.json.encode([whole(config(FULL)), said(config(FULL))]).decode()
    assert "secret-" not in shown
    assert "5ec2" not in shown
    assert whole(config(FULL))["keys"][1]["digest"] == "***"
    assert whole(config(FULL))["ops"]["admin_token"] == "***"


def test_what_is_said_means_what_the_file_does() -> None:
    before = config(FULL)
    for show in (said, whole):
        again = read(msgspec.json.encode(show(before)).decode())
        assert [problem.message for problem in again.problems] == []
        assert whole(again.config) == whole(before)


def test_every_field_is_shown_with_its_default() -> None:
    shown: dict[str, Any] = whole(config(""))
    assert shown["api"]["keep_alive"] == "75s"
    assert shown["limits"]["body"] == "10MiB"
    assert shown["models"]["small"]["deployments"][0]["weight"] == 1.0
    assert said(config(FULL).keys[0]) == {
        "name": "a",
        "org": "acme",
        "secret": "***",
        "expires": "2027-01-01T00:00:00Z",
        "ips": ["10.0.0.0/8"],
    }
