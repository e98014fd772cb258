"""The wire contract's table of upstream errors (6.4), whole: every shape with every status that it may come with.

What is made of each class is shown against a running gateway in `tests/field/test_fb_table.py`.
"""

import pytest

from gateway.faults import Fault
from gateway.providers.failures import failure, failure_of
from tests.field.shapes import ALL, GIVEN_AWAY, NUMBERED, WORDLESS, Error, Shape, bytes_of, detail_list

CLASSES: dict[Fault, tuple[int, ...]] = {
    Fault.REJECTED: (400, 404, 413, 422),
    Fault.CREDENTIAL: (401, 403),
    Fault.BILLING: (402,),
    Fault.UPSTREAM_TIMEOUT: (408, 504, 522, 524),
    Fault.ACCOUNT_RATE: (429,),
    Fault.BUSY: (423, 425, 498, 503, 529),
    Fault.SERVER: (301, 302, 307, 405, 406, 409, 410, 415, 424, 451, 500, 501, 502, 505, 520, 521, 523, 525, 526, 527),
}

TABLE = {status: fault for fault, statuses in CLASSES.items() for status in statuses}


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("status", TABLE)
def test_a_status_means_the_same_in_every_shape(status: int, shape: Shape) -> None:
    body = bytes_of(shape, Error(status, "", "It did not work")).replace(b"UPMODEL", b"up-T1")
    found = failure(status, {}, body, hidden=["up-T1"])
    fault = Fault.STALE_MODEL if status == 404 and shape in WORDLESS else TABLE[status]
    assert (found.fault, found.status) == (fault, status)
    assert bool(found.message) == (fault is Fault.REJECTED and shape not in WORDLESS)
    assert not [word for word in GIVEN_AWAY if word in str(found)]


@pytest.mark.parametrize("shape", NUMBERED, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("number", [status for status in TABLE if status >= 400])
def test_a_number_inside_a_200_means_what_the_status_does(number: int, shape: Shape) -> None:
    body = bytes_of(shape, Error(number, "", "It did not work"))
    found = failure_of(body, hidden=["up-T1"])
    assert (found.fault, found.status) == (TABLE[number], number if TABLE[number] is Fault.REJECTED else 200)


def test_a_list_of_bad_fields_inside_a_200_is_the_422_that_it_should_have_been() -> None:
    found = failure_of(bytes_of(detail_list, Error(0, "", "It did not work")))
    assert (found.fault, found.status, found.param) == (Fault.REJECTED, 422, "n")
