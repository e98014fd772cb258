"""Our accounts at one provider: what they are called, and the provider as each of them meets it. Pure."""

from msgspec.structs import replace

from gateway.policy.catalogue import Provider


def credentials(provider: Provider) -> tuple[str, ...]:
    """Return its credentials by the names that may be shown: its own for the first, with a number for each further one."""
    return provider.name, *(f"{provider.name}#{number}" for number, _ in enumerate(provider.further_keys, 2))


def accounts(provider: Provider) -> dict[str, Provider]:
    """Return it with each of its credentials as the one that is sent, by that one's name."""
    keys = (provider.api_key, *provider.further_keys)
    return {
        name: replace(provider, api_key=key, further_keys=keys[:place] + keys[place + 1 :])
        for place, (name, key) in enumerate(zip(credentials(provider), keys, strict=True))
    }
