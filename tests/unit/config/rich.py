"""A configuration with something in every section, and with each kind of value that the format has."""

RICH = """
api: {port: 9000}
ops: {admin_token: a-token-that-is-long-enough}
redis: {url: "redis://:a-secret@redis:6379"}
keys_pepper: a-pepper-that-is-long-enough
database: {single_host: true}
tiers: {priority: {price: 1.25, queue: 10s}, default: {price: 1.0, queue: 30s}}
plans:
  pro:
    limits: {rpm: 600, tpm_in: 300, per_model: {small: {rpm: 3}}, dynamic: {window: 15m, ceiling: 20}}
    tiers: [priority, default]
    over_limit: {rpm: 600}
    keepalive: 10s
    budget: {usd: 5.25, period: day}
orgs: {acme: {plan: pro, projects: {search: {tier: priority, budget: {tokens: 100}}}}}
keys:
  - {name: ci, org: acme, secret: sk-0123456789abcdef, expires: 2027-01-01, ips: [10.0.0.0/8]}
  - {name: batch, org: acme, digest: "hmac-sha256:0000000000000000000000000000000000000000000000000000000000000000"}
dialects: {/team/v1: nebius}
"""
