import os
import threading

from gateway.embedded.lifeline import Lifeline


def test_the_first_line_is_the_assignment_and_the_end_of_the_pipe_says_that_the_parent_is_gone() -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"do": "this"}\n')
    lifeline = Lifeline(reading, grace_s=3600.0)
    assert lifeline.assignment() == b'{"do": "this"}\n'
    orphaned = threading.Event()
    lifeline.watch(orphaned.set)
    assert not orphaned.is_set()
    os.close(writing)
    assert orphaned.wait(timeout=5.0)
