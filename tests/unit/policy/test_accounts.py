"""Our accounts at one provider."""

import pytest

from gateway.policy.accounts import accounts, credentials
from tests.catalogues import provider


@pytest.mark.parametrize(("count", "names"), [(1, ("p",)), (2, ("p", "p#2")), (3, ("p", "p#2", "p#3"))])
def test_each_account_is_the_provider_with_its_own_credential_and_knows_the_others(count: int, names: tuple[str, ...]) -> None:
    whole = provider(credentials=count)
    keys = (whole.api_key, *whole.further_keys)
    found = accounts(whole)
    assert tuple(found) == credentials(whole) == names
    assert tuple(each.api_key for each in found.values()) == keys
    for each in found.values():
        assert {each.api_key, *each.further_keys} == set(keys)
        assert (each.name, each.base_url) == (whole.name, whole.base_url)
