from gateway.config.differences import between, differences, flat, hides
from gateway.config.shown import whole
from tests.unit.config.reading import config
from tests.unit.config.rich import RICH


def test_every_field_that_changed_is_named_by_its_path() -> None:
    changed = RICH.replace("keepalive: 10s", "keepalive: 2m").replace("name: batch", "name: nightly")
    found = {each.path: (each.old, each.new) for each in between(config(RICH), config(changed))}
    assert found["plans.pro.keepalive"] == ("10s", "2m")
    assert found["keys[batch].org"] == ("acme", None)
    assert found["keys[nightly].org"] == (None, "acme")
    assert all(path.startswith(("plans.pro.keepalive", "keys[batch]", "keys[nightly]")) for path in found)


def test_of_a_secret_only_that_it_is_another() -> None:
    [found] = between(config(RICH), config(RICH.replace("sk-0123456789abcdef", "sk-fedcba9876543210")))
    assert (found.path, found.old, found.new) == ("keys[ci].secret", "***", "***")


def test_lists_without_names_are_told_by_place_and_empty_things_are_there() -> None:
    assert flat({"a": [1, {"b": 2}], "c": {}, "d": []}) == {"a[0]": 1, "a[1].b": 2, "c": {}, "d": []}
    assert [each.path for each in differences({"a": 1, "b": 2}, {"b": 2, "c": 3})] == ["c", "a"]


def test_a_document_says_whether_it_hides_anything() -> None:
    assert hides(whole(config(RICH)))
    assert not hides({"a": "b", "c": ["d"]})
