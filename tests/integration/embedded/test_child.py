from gateway.embedded.child import FIRST_PAUSE_S, LONGEST_PAUSE_S, pause_s


def test_the_first_restart_is_prompt() -> None:
    assert pause_s(0) == FIRST_PAUSE_S


def test_a_child_that_keeps_ending_is_started_ever_more_slowly_up_to_a_bound() -> None:
    pauses = [pause_s(failures) for failures in range(100)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S
