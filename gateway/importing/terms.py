"""What a row of LiteLLM's tables allows whoever it is for: limits, money, models. What is not understood allows nothing.

Keys, teams, organizations, projects, users and members of teams have the same columns, in part by way of a budget's row.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from gateway.importing.accounts import NotImportableError
from gateway.importing.budgets import Carried, budget
from gateway.importing.features import lacking
from gateway.importing.findings import Findings
from gateway.importing.numbers import read

Row = Mapping[str, Any]

_LIMITS = {"rpm_limit": "rpm", "tpm_limit": "tpm", "max_parallel_requests": "concurrency"}
_PER_MODEL = {"model_rpm_limit": "rpm", "model_tpm_limit": "tpm", "model_itpm_limit": "tpm_in", "model_otpm_limit": "tpm_out"}
_MOST_USD = Decimal(999_999)

_RESTRICTING = (
    "guardrails",
    "policies",
    "enforced_params",
    "tag_rpm_limit",
    "require_trace_id",
    "max_iterations",
    "end_user_budget_id",
    "secret_manager_settings",
    "model_config",
    "allowed_passthrough_routes",
    "denied_passthrough_routes",
    "scim_active",
    "password_reset_required",
)
"""What may stand in `metadata` and bounds whoever has it, in ways that are not known here."""

_REFUSING = ("policies", "agent_id", "config")
"""Columns that do so."""

WINDOWS = "several budgets there: one here, the least of their amounts for the longest of their times"
ONE_BY_ONE = "models have no budgets of their own here: those that had are left out"
RENAMED = "names have no second meaning here: those that had are left out"
DAILY = "tokens a day are a budget of tokens here, in the calendar's days, UTC; what was used today is not counted"
HARD = "no alert of an amount here: metrics tell what is left of a budget"


class Terms(msgspec.Struct, kw_only=True):
    """What one row allows. `without` are names of models that it may not be used for; `budget_place` is the field that has it."""

    limits: dict[str, int] = {}
    per_model: dict[str, dict[str, int]] = {}
    money: Carried | None = None
    tokens_a_day: int | None = None
    spent_usd: Decimal = Decimal(0)
    without: set[str] = set()
    blocked: bool = False

    @property
    def is_shared(self) -> bool:
        """Return whether there is anything to count."""
        return bool(self.limits or self.per_model or self.money is not None or self.tokens_a_day is not None)

    def budget(self) -> dict[str, Any] | None:
        """Return the budget as the file has it: for both money and tokens the longer of their times."""
        if self.money is None and self.tokens_a_day is None:
            return None
        found: dict[str, Any] = {}
        if self.money is not None:
            found["usd"] = float(self.money.usd) if self.money.usd != int(self.money.usd) else int(self.money.usd)
        if self.tokens_a_day is not None:
            found["tokens"] = self.tokens_a_day
        return {**found, "period": "day" if self.money is None else self.money.period}


def terms(row: Row, budget_row: Row | None, where: tuple[str | int, ...], findings: Findings) -> Terms:
    """Return what a row and its budget's allow.

    Raises `NotImportableError` for a restriction that is not known here.
    """
    found = Terms(limits={}, per_model={}, without=set())
    for name in _REFUSING:
        if row.get(name):
            raise NotImportableError(f"it has {name}, which is not known here")
    for source in (row, budget_row or {}):
        _limits(source, found, where, findings)
        _money(source, found, where, findings)
    _metadata(mapping(row.get("metadata")), found, where, findings)
    for name, ours in _PER_MODEL.items():
        _per_model(mapping(row.get(name)), ours, found)
    for alias in mapping(row.get("aliases")):
        found.without.add(str(alias))
        findings.approximate((*where, "aliases"), (), RENAMED)
    found.blocked = bool(row.get("blocked"))
    found.spent_usd = Decimal(str(row.get("spend") or 0))
    return found


def _limits(source: Row, found: Terms, where: tuple[str | int, ...], findings: Findings) -> None:
    for theirs, ours in _LIMITS.items():
        value = source.get(theirs)
        if value is not None:
            found.limits[ours] = min(_positive(value, theirs), found.limits.get(ours, _positive(value, theirs)))
            findings.exact((*where, theirs), ("limits", ours))
    daily = source.get("tpd_limit")
    if daily is not None:
        if lacking("keys.*.budget.tokens"):
            raise NotImportableError("it has tpd_limit, and this release has no budgets of tokens")
        found.tokens_a_day = min(_positive(daily, "tpd_limit"), found.tokens_a_day or 2**53)
        findings.approximate((*where, "tpd_limit"), (), DAILY)


def _money(source: Row, found: Terms, where: tuple[str | int, ...], findings: Findings) -> None:
    windows = [*_windows(source)]
    for usd, duration in windows:
        carried = budget(min(usd, _MOST_USD), duration)
        found.money = carried if found.money is None else _stricter(found.money, carried)
        note = carried.note if len(windows) == 1 else WINDOWS
        findings.approximate((*where, "max_budget"), (), note)
        if duration is not None:
            findings.approximate((*where, "budget_duration"), (), note)
    for name in mapping(source.get("model_max_budget")):
        found.without.add(str(name))
        findings.approximate((*where, "model_max_budget"), (), ONE_BY_ONE)
    if source.get("soft_budget") is not None:
        findings.ignored((*where, "soft_budget"), HARD)


def _windows(source: Row) -> Iterator[tuple[Decimal, str | None]]:
    """Yield each amount and the time that it is for."""
    if source.get("max_budget") is not None:
        duration = source.get("budget_duration")
        yield _usd(source["max_budget"]), None if duration is None else str(duration)
    further = source.get("budget_limits") or []
    if not isinstance(further, list):
        raise NotImportableError("it has budget_limits, which are no list")
    for each in further:
        if not isinstance(each, Mapping) or each.get("max_budget") is None:
            raise NotImportableError("it has budget_limits without an amount")
        duration = each.get("budget_duration")
        yield _usd(each["max_budget"]), None if duration is None else str(duration)


def _stricter(one: Carried, other: Carried) -> Carried:
    """Return what passes neither of two budgets."""
    periods = ("day", "week", "month")
    longer = max(one, other, key=lambda carried: periods.index(carried.period))
    return Carried(min(one.usd, other.usd), longer.period, WINDOWS, ends=one.ends or other.ends)


def _metadata(metadata: Row, found: Terms, where: tuple[str | int, ...], findings: Findings) -> None:
    for name in _RESTRICTING:
        if metadata.get(name):
            raise NotImportableError(f"its metadata has {name}, which is not known here")
    for name, ours in _PER_MODEL.items():
        if metadata.get(name):
            _per_model(mapping(metadata[name]), ours, found)
            findings.exact((*where, "metadata", name), ("limits", "per_model"))
    for name in metadata:
        if name not in _PER_MODEL:
            findings.ignored((*where, "metadata", str(name)), "a note that nothing here goes by")


def _per_model(limits: Row, ours: str, found: Terms) -> None:
    for model, value in limits.items():
        if value is not None:
            found.per_model.setdefault(str(model), {})[ours] = _positive(value, f"limit of {model}")


def _positive(value: Any, name: str) -> int:
    found = int(read(value, name))
    if found < 1:
        raise NotImportableError(f"its {name} is 0, which lets nothing through")
    return found


def _usd(value: Any) -> Decimal:
    read(value, "max_budget")
    return Decimal(str(value))


def mapping(value: Any) -> Row:
    """Return what is to be a mapping. Raises `NotImportableError` where it is something else, and so is not understood."""
    if value is None or value == []:
        return {}
    if not isinstance(value, Mapping):
        raise NotImportableError("a part of it is no mapping where it should be one")
    return value
