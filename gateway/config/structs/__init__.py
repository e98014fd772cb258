"""The configuration file as values: every field with its default. See `config/README.md` for what each one means.

`Config` is the whole file. Its sections are in `serving` (how the gateway runs), `supply` (what it serves) and `tenancy` (to
whom). Names of fields are the file's, but for a unit at their end. Nothing here checks one section against another.
"""

from typing import Annotated, Literal

import msgspec

from gateway.config.scalars import ModelName, Name, Prefix
from gateway.config.structs.base import Section
from gateway.config.structs.serving import (
    Api,
    Bounds,
    Breaker,
    Database,
    FallbackRules,
    Leases,
    Ledger,
    Ops,
    Redis,
    Shutdown,
    Telemetry,
)
from gateway.config.structs.supply import SHIPPED_TIERS, Model, Provider, Tiers
from gateway.config.structs.tenancy import Key, Org, Plan
from gateway.policy.catalogue import Secret


class Config(Section, frozen=True, kw_only=True):
    """The whole file.

    `workers` are processes. `state_dir` holds the embedded Valkey's files, the pepper and the spool, relative to the working
    directory. `keys_pepper` goes into every key's digest: losing it loses all keys. `dialects` are more route prefixes.
    """

    api: Api = Api()
    ops: Ops = Ops()
    workers: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1
    redis: Redis = Redis()
    database: Database = Database()
    state_dir: str = "var"
    providers: dict[Name, Provider] = {}
    models: dict[ModelName, Model] = {}
    tiers: Tiers = SHIPPED_TIERS
    plans: dict[Name, Plan] = {}
    orgs: dict[Name, Org] = {}
    keys: tuple[Key, ...] = ()
    keys_pepper: Secret | None = None
    fallback: FallbackRules = FallbackRules()
    leases: Leases = Leases()
    dialects: dict[Prefix, Literal["deepinfra", "nebius"]] = {}
    limits: Bounds = Bounds()
    shutdown: Shutdown = Shutdown()
    telemetry: Telemetry = Telemetry()
    breaker: Breaker = Breaker()
    ledger: Ledger = Ledger()
