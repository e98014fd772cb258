"""`python tests/dashboards/parsing.py < QUERIES > FOUND`: what queries ask for, by a parser of PromQL, where that is installed.

Comes in as a JSON list of queries. Goes out as one of `{"selectors": {metric: [labels]}, "parts": [query]}`: the metrics that a
query names with the labels that it asks of them, and the queries that it compares or joins at its top, each of which has to have
an answer.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import promql_parser as promql

JOINS = {"and", "or", "unless"}
COMPARISONS = {">", "<", ">=", "<=", "==", "!="}


def selectors(found: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield each metric that is asked for, and the labels by which."""
    if isinstance(found, promql.VectorSelector):
        yield found.name, [each.name for each in found.matchers.matchers]
    elif isinstance(found, promql.MatrixSelector):
        yield from selectors(found.vector_selector)
    elif isinstance(found, promql.BinaryExpr):
        yield from selectors(found.lhs)
        yield from selectors(found.rhs)
    elif isinstance(found, promql.Call):
        for argument in found.args:
            yield from selectors(argument)
    elif isinstance(found, promql.AggregateExpr | promql.ParenExpr | promql.UnaryExpr | promql.SubqueryExpr):
        yield from selectors(found.expr)
    elif not isinstance(found, promql.NumberLiteral | promql.StringLiteral):
        raise TypeError(f"a query has a {type(found).__name__}, which nobody reads")


def parts(found: Any) -> Iterator[str]:
    """Yield what is joined or compared at the top."""
    if isinstance(found, promql.ParenExpr):
        yield from parts(found.expr)
    elif isinstance(found, promql.BinaryExpr) and str(found.op) in JOINS:
        yield from parts(found.lhs)
        yield from parts(found.rhs)
    elif isinstance(found, promql.BinaryExpr) and str(found.op) in COMPARISONS:
        yield from parts(found.lhs)
    else:
        yield found.prettify()


def read(query: str) -> dict[str, Any]:
    """Return what one query asks for. Raises ValueError for one that is none."""
    found = promql.parse(query)
    asked: dict[str, set[str]] = {}
    for name, labels in selectors(found):
        asked.setdefault(name, set()).update(labels)
    return {"selectors": {name: sorted(labels) for name, labels in asked.items()}, "parts": [*parts(found)]}


if __name__ == "__main__":
    json.dump([read(query) for query in json.load(sys.stdin)], sys.stdout)
