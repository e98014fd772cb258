"""Lists of models that stand in: followed to their ends, without circles, nobody twice."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.importing.fallbacks import CIRCLE, FOLLOWED, OTHER_LISTS, UNKNOWN, Lists, chains, read
from gateway.importing.findings import Findings

MODELS = ("a", "b", "c", "d")
NAMES = {**{name: name for name in MODELS}, "alias": "b"}


def lists(*values: Any, special: bool = False) -> tuple[Lists, Findings]:
    findings = Findings()
    return read([*values], ("fallbacks",), findings, special=special), findings


def chained(*values: Any) -> tuple[dict[str, list[str]], dict[str, str]]:
    found, findings = lists(*values)
    made = chains(MODELS, [found], NAMES, findings)
    return made, {finding.where: finding.note for finding in findings.all()}


def test_a_list_is_followed_to_its_end() -> None:
    found, told = chained({"a": ["b", "c"]}, {"b": ["d"]})
    assert found == {"a": ["b", "d", "c"], "b": ["d"], "c": [], "d": []}
    assert told["fallbacks[0].a"] == FOLLOWED


def test_a_circle_is_opened_where_it_closes() -> None:
    found, told = chained({"a": ["b"]}, {"b": ["a", "c"]})
    assert found == {"a": ["b", "c"], "b": ["c"], "c": [], "d": []}
    assert told["fallbacks[1].b"] == CIRCLE


def test_what_stands_in_for_all_stands_in_for_those_without_a_list() -> None:
    found, _ = chained({"*": ["d"]}, {"a": ["b"]})
    assert found == {"a": ["b"], "b": ["d"], "c": ["d"], "d": []}


def test_aliases_are_their_models() -> None:
    found, _ = chained({"alias": ["c"]}, {"a": ["alias"]})
    assert found == {"a": ["b", "c"], "b": ["c"], "c": [], "d": []}


def test_who_is_not_there_is_left_out_and_told() -> None:
    found, told = chained({"a": ["nobody", "b"]}, {"nobody": ["a"]})
    assert found["a"] == ["b"]
    assert told["fallbacks[0].a"] == UNKNOWN
    assert told["fallbacks[1].nobody"] == "stands for no model that was imported"


def test_lists_for_one_reason_come_behind_the_others() -> None:
    general, findings = lists({"a": ["b"]})
    special = read([{"a": ["c", "b"]}], ("content_policy_fallbacks",), findings, special=True)
    assert chains(MODELS, [general, special], NAMES, findings)["a"] == ["b", "c"]
    assert {finding.where: finding.note for finding in findings.all()}["content_policy_fallbacks"] == OTHER_LISTS


def test_what_is_no_list_is_told() -> None:
    found, told = chained("b", {"a": "b"}, {"c": [{"model": "d", "temperature": 1}, {}]})
    assert found == {"a": ["b"], "b": [], "c": ["d"], "d": []}
    assert "expected a mapping" in told["fallbacks[0]"]
    assert "changed" in told["fallbacks[2].c"]


ANY = st.dictionaries(
    st.sampled_from([*MODELS, "*", "alias"]), st.lists(st.sampled_from([*MODELS, "alias", "nobody"]), max_size=4)
)


@given(values=st.lists(ANY, max_size=4))
def test_no_list_leads_back_and_none_has_anybody_twice(values: list[Any]) -> None:
    found, _ = chained(*values)

    def leads(start: str, end: str) -> bool:
        return start == end or any(leads(name, end) for name in found[start])

    for model, names in found.items():
        assert len({*names}) == len(names)
        assert not any(leads(name, model) for name in names)
