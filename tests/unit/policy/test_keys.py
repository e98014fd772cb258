import pytest

from gateway.errors import InvalidRequest, IpNotAllowed, ProjectNotAllowed, Unauthenticated
from gateway.policy.catalogue import Tier
from gateway.policy.keys import check_key, for_project, secret_of
from tests.catalogues import key

SECRET = "sk-a-secret-of-some-length"


def test_a_request_carries_its_secret() -> None:
    assert secret_of([(b"authorization", b"Bearer " + SECRET.encode())]) == SECRET


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Basic abc")], [(b"x-api-key", b"")]])
def test_no_key_is_401(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Unauthenticated):
        secret_of(headers)


def test_two_keys_are_a_fault_of_the_request() -> None:
    with pytest.raises(InvalidRequest):
        secret_of([(b"x-api-key", SECRET.encode()), (b"api-key", b"another")])


def test_a_key_expires_at_its_moment() -> None:
    short = key(expires_at_s=100.0)
    check_key(short, None, 99.9)
    with pytest.raises(Unauthenticated):
        check_key(short, None, 100.0)


@pytest.mark.parametrize(
    ("address", "enters"), [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("192.168.0.1", False), (None, False), ("::1", True)]
)
def test_a_bound_key_enters_from_its_networks_alone(address: str | None, enters: bool) -> None:
    bound = key(ips=("10.0.0.0/8", "::1"))
    if enters:
        check_key(bound, address, 0.0)
    else:
        with pytest.raises(IpNotAllowed):
            check_key(bound, address, 0.0)


PROJECTS = {"search": Tier.PRIORITY, "support": Tier.DEFAULT}


@pytest.mark.parametrize(
    ("query", "project"),
    [
        (b"", "search"),
        (b"ai_project_id=", "search"),
        (b"ai_project_id=search", "search"),
        (b"%61i%5Fproject%5Fid=%73earch", "search"),
        (b"a=1&ai_project_id=support", "support"),
    ],
)
def test_a_request_may_name_a_project_of_its_key(query: bytes, project: str) -> None:
    assert for_project(key(project="search", project_tiers=PROJECTS), query).project == project


@pytest.mark.parametrize("projects", [None, frozenset({"search"})])
def test_an_unknown_project_and_another_ones_read_alike(projects: frozenset[str] | None) -> None:
    with pytest.raises(ProjectNotAllowed, match="may not be used for this project"):
        for_project(key(project_tiers=PROJECTS, projects=projects), b"ai_project_id=nope")
    with pytest.raises(ProjectNotAllowed, match="may not be used for this project"):
        for_project(key(project_tiers=PROJECTS, projects=frozenset({"search"})), b"ai_project_id=support")
