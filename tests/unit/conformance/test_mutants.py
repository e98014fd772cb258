"""Faults that are made on purpose have a place: one whose place has moved proves nothing, and would say so too late."""

import pytest

from tests.conformance.mutants import FAULTS, Fault
from tests.mutant import ROOT


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_place_of_a_fault_is_there_once(fault: Fault) -> None:
    text = (ROOT / fault.file).read_text("utf-8")
    assert fault.make(text) != text
