import pytest

from gateway.demo.scripts import SCRIPTS, Script, script


def test_a_model_is_its_script() -> None:
    assert script("demo-busy") == SCRIPTS["demo-busy"]


def test_a_name_may_change_its_script() -> None:
    assert script("demo-slow?first_ms=50&words=3") == Script(first_ms=50, word_ms=SCRIPTS["demo-slow"].word_ms, words=3)


@pytest.mark.parametrize(
    "name", ["gpt-4", "", "demo-fast?words=many", "demo-fast?words=-1", "demo-fast?first_ms=60001", "demo-fast?speed=1"]
)
def test_what_is_no_model_and_no_change_is_nothing(name: str) -> None:
    assert script(name) is None
