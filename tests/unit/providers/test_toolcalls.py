import msgspec

from tests.unit.providers.streams import DONE, chunk, ends, run


def fragments(*calls: dict[str, object]) -> list[tuple[object, object]]:
    """Return the index and id of each fragment as the client gets them."""
    found = run(*(chunk([{"index": 0, "delta": {"tool_calls": [call]}}]) for call in calls), ends("tool_calls"), DONE)
    assert found.failed is None
    sent = [choice["delta"].get("tool_calls", []) for got in found.chunks for choice in got["choices"]]  # type: ignore[attr-defined]
    return [(call.get("index"), call.get("id")) for calls in sent for call in calls]


def opens(call_id: str, index: int | None) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": ""}} | (
        {} if index is None else {"index": index}
    )


def goes_on(index: int | None, call_id: str | None = None) -> dict[str, object]:
    return (
        {"function": {"arguments": "x"}}
        | ({} if index is None else {"index": index})
        | ({} if call_id is None else {"id": call_id})
    )


def test_correct_indexes_are_not_touched() -> None:
    calls = (opens("a", 0), opens("b", 1), goes_on(0), goes_on(1), goes_on(0))
    assert fragments(*calls) == [(0, "a"), (1, "b"), (0, None), (1, None), (0, None)]


def test_missing_indexes_are_given_by_id() -> None:
    assert fragments(opens("a", None), opens("b", None), goes_on(None, "a")) == [(0, "a"), (1, "b"), (0, "a")]


def test_two_calls_under_one_index_are_told_apart() -> None:
    assert fragments(opens("a", 0), goes_on(0), opens("b", 0), goes_on(0)) == [(0, "a"), (0, None), (1, "b"), (1, None)]


def test_a_fragment_that_nothing_identifies_is_left_alone() -> None:
    assert fragments(opens("a", None), opens("b", None), goes_on(None))[2] == (None, None)
    assert fragments(opens("a", None), goes_on(None)) == [(0, "a"), (0, None)]


def test_a_new_id_for_every_fragment_opens_no_new_call() -> None:
    assert fragments(opens("a", 0), goes_on(0, "b"), goes_on(0, "c")) == [(0, "a"), (0, "b"), (0, "c")]


def test_choices_have_calls_of_their_own() -> None:
    both = chunk([{"index": i, "delta": {"tool_calls": [opens("a", 0)]}} for i in (0, 1)])
    assert run(both, ends(), ends(index=1), DONE).chunks[0]["choices"] == msgspec.json.decode(both[6:])["choices"]
