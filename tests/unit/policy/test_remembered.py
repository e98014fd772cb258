from gateway.policy.remembered import Remembered


def test_it_begins_anew_where_it_would_grow_too_large() -> None:
    kept = Remembered[int, str](3)
    for number in range(8):
        kept[number] = str(number)
        assert kept[number] == str(number)
        assert len(kept) <= 3
    assert kept == {6: "6", 7: "7"}
