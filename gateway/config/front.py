"""What whoever stands before a gateway has to allow, by its configuration: a load balancer, an Ingress, nginx, HAProxy or Envoy.

A front that is less patient than the gateway cuts answers that were on their way, and its clients are charged for them. Seconds
and bytes; the words of each program are its own.
"""

from math import ceil

import msgspec

from gateway.config.structs import Config
from gateway.config.structs.supply import Timeouts
from gateway.policy.deadlines import LONGEST_S

MARGIN_S = 60.0
"""How much longer a front should wait than the gateway does, so that the gateway's own error is what clients hear."""

SETTLE_S = 30.0
"""What a gateway may take behind its drain, to settle and to flush, before whoever stops it may kill it."""

KEEP_ALIVE_SHARE = 0.5
"""A front must close idle connections first, well before the gateway does: else it sends into one that has just been closed."""


class Allowance(msgspec.Struct, frozen=True):
    """One thing to allow: how much, why, and what the usual fronts call it."""

    name: str
    value: str
    why: str
    settings: dict[str, str]


def allowances(config: Config) -> tuple[Allowance, ...]:
    """Return all of them."""
    return (*patience(config), *sizes(config), *leaving(config))


def patience(config: Config) -> tuple[Allowance, ...]:
    """Return how long to wait, and how long not to."""
    timeouts = [model.timeouts for model in config.models.values()] or [Timeouts()]
    silent = whole_s(max(LONGEST_S, *(each.idle_s for each in timeouts)) + MARGIN_S)
    longest = whole_s(LONGEST_S + max(each.total_s for each in timeouts) + MARGIN_S)
    resting, kept = f"{int(config.api.keep_alive_s * KEEP_ALIVE_SHARE)}s", whole_s(config.api.keep_alive_s)
    receipt = whole_s(config.api.receipt_s)
    return (
        Allowance(
            "silence",
            f"at least {silent}",
            "an answer may be worked at for so long before its first byte, and for `timeouts.idle` between two",
            {"nginx": f"proxy_read_timeout {silent}", "haproxy": f"timeout server {silent}", "envoy": f"idle_timeout: {silent}"},
        ),
        Allowance(
            "whole answer",
            f"none, or at least {longest}",
            "a stream may go on for `timeouts.total` behind its first content",
            {"nginx": "has none", "haproxy": "has none", "envoy": "route timeout: 0s"},
        ),
        Allowance(
            "idle connections to the gateway",
            f"at most {resting}",
            f"the gateway closes them after api.keep_alive, {kept}: the front has to be first",
            {
                "nginx": f"keepalive_timeout {resting}",
                "haproxy": f"pool-purge-delay {resting}",
                "envoy": f"idle_timeout: {resting}",
            },
        ),
        Allowance(
            "request",
            f"at least {receipt}",
            "api.receipt: from a request's first byte to its last",
            {
                "nginx": f"proxy_send_timeout {receipt}",
                "haproxy": f"timeout client {silent}",
                "envoy": f"request_timeout: {receipt}",
            },
        ),
    )


def sizes(config: Config) -> tuple[Allowance, ...]:
    """Return what to let through, and as it comes."""
    body, header = config.limits.body_bytes, config.limits.header_bytes
    return (
        Allowance(
            "body",
            f"at least {body} bytes",
            "limits.body: beyond it the gateway answers 413 itself",
            {"nginx": f"client_max_body_size {body}", "haproxy": "has none", "envoy": "has none"},
        ),
        Allowance(
            "headers",
            f"at least {header} bytes",
            "limits.header_bytes: beyond them the gateway answers 431 itself",
            {
                "nginx": f"large_client_header_buffers 4 {header // 2}",
                "haproxy": f"tune.bufsize {2 * header}",
                "envoy": f"max_request_headers_kb: {header // 1024 + 1}",
            },
        ),
        Allowance(
            "buffering of answers",
            "off",
            "a stream that is buffered arrives at its end",
            {"nginx": "proxy_buffering off", "haproxy": "no option http-buffer-request", "envoy": "no buffer filter"},
        ),
    )


def leaving(config: Config) -> tuple[Allowance, ...]:
    """Return how much time a gateway needs that is told to leave."""
    delay_s, drain_s = config.shutdown.delay_s, config.shutdown.drain_s
    noticed, grace = whole_s(delay_s), whole_s(delay_s + drain_s + SETTLE_S)
    return (
        Allowance(
            "time to notice that a gateway leaves",
            f"less than {noticed}",
            "shutdown.delay: so long it serves on once /readyz says no",
            {"kubernetes": "readinessProbe: periodSeconds x failureThreshold", "haproxy": "inter x fall"},
        ),
        Allowance(
            "time to leave",
            f"at least {grace}",
            "shutdown.delay, shutdown.drain, and half a minute to settle",
            {"kubernetes": f"terminationGracePeriodSeconds: {grace[:-1]}", "compose": f"stop_grace_period: {grace}"},
        ),
    )


def whole_s(seconds: float) -> str:
    """Return a time in whole seconds, which every front understands."""
    return f"{ceil(seconds)}s"
