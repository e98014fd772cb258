"""Whether budgets can be kept: each says how much, and what may be asked for under one of money has a price."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gateway.config.parse import Parsed
from gateway.config.priced import unpriced
from gateway.config.problems import Problem, Where
from gateway.config.rights import rights
from gateway.config.structs import Config
from gateway.config.structs.tenancy import Budget, Key, Org
from gateway.policy.limits import EXACT


def check(parsed: Parsed) -> Iterator[Problem]:
    """Yield each budget without an amount, and each model without a price that a key can ask for under one of money."""
    for where, budget in _budgets(parsed.config):
        if budget is not None and budget.usd is None and budget.tokens is None:
            yield parsed.problem((*where, "budget"), "says no amount: write one, such as {usd: 5} or {tokens: 1000000}")
        elif budget is not None and budget.tokens is not None and budget.tokens >= EXACT:
            yield parsed.problem((*where, "budget", "tokens"), f"{budget.tokens} is out of range: {EXACT - 1} at most")
    for name, why in unpriced(parsed.config).items():
        spender = next((key for key in parsed.config.keys if _spends_on(parsed.config, key, name)), None)
        if spender is not None:
            message = f"{why}, and key '{spender.name}' may use this model under a budget: nobody would know what it spends"
            yield parsed.problem(("models", name, "price"), message)


def _budgets(config: Config) -> Iterator[tuple[Where, Budget | None]]:
    for name, plan in config.plans.items():
        yield ("plans", name), plan.budget
    for name, org in config.orgs.items():
        yield ("orgs", name), org.budget
        for project, found in org.projects.items():
            yield ("orgs", name, "projects", project), found.budget
    for index, key in enumerate(config.keys):
        yield ("keys", index), key.budget


def _spends_on(config: Config, key: Key, model: str) -> bool:
    plan, org = rights(config, key), config.orgs.get(key.org, Org())
    projects = (
        org.projects.values() if key.projects is None else (org.projects[name] for name in key.projects if name in org.projects)
    )
    budgets = (plan.budget, org.budget, *(project.budget for project in projects))
    of_money = any(budget is not None and budget.usd is not None for budget in budgets)
    return of_money and any(fnmatchcase(model, pattern) for pattern in plan.models)
