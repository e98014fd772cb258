"""How the URL of a store is read."""

import pytest

from gateway.admission.endpoint import Endpoint, Kind, Store, parse_store


def alone(url: str) -> Endpoint:
    """Return the one server that a URL names."""
    store = parse_store(url)
    assert (store.kind, len(store.nodes)) == (Kind.SINGLE, 1)
    return store.nodes[0]


def places(store: Store) -> list[str]:
    return [node.place for node in store.nodes]


def test_a_tcp_url() -> None:
    endpoint = alone("redis://tiergate:s%2Fecret@store.example:7000/4")
    assert (endpoint.host, endpoint.port, endpoint.database, endpoint.username) == ("store.example", 7000, 4, "tiergate")
    assert endpoint.password.reveal() == "s/ecret"


def test_the_shortest_url() -> None:
    endpoint = alone("redis://")
    assert (endpoint.host, endpoint.port, endpoint.database, bool(endpoint.password)) == ("localhost", 6379, 0, False)


def test_a_unix_url() -> None:
    endpoint = alone("unix:///run/store%20a.sock?db=2")
    assert (endpoint.path, endpoint.database, endpoint.place) == ("/run/store a.sock", 2, "/run/store a.sock")


@pytest.mark.parametrize("way", ["", "+sentinel", "+cluster"])
def test_tls_is_the_schemes_second_s(way: str) -> None:
    path = "main" if way == "+sentinel" else ""
    assert parse_store(f"rediss{way}://h/{path}").tls
    assert not parse_store(f"redis{way}://h/{path}").tls


def test_sentinels_and_the_primary_that_they_watch() -> None:
    store = parse_store("redis+sentinel://tiergate:word@s1,s2:5000,[::1]:5001,[::2]/my%20main/3")
    assert (store.kind, store.primary) == (Kind.SENTINEL, "my main")
    assert places(store) == ["s1:26379", "s2:5000", "::1:5001", "::2:26379"]
    assert (store.entry.username, store.entry.password.reveal(), store.entry.database) == ("tiergate", "word", 3)
    assert not any(node.username or node.password or node.database for node in store.nodes)


def test_sentinels_are_entered_by_words_of_their_own() -> None:
    (node,) = parse_store("redis+sentinel://:word@s1/main?sentinel_username=watcher&sentinel_password=other%2Fword").nodes
    assert (node.username, node.password.reveal()) == ("watcher", "other/word")


def test_a_cluster_is_entered_alike_at_every_node() -> None:
    store = parse_store("redis+cluster://tiergate:word@n1,n2:7000/0")
    assert (store.kind, places(store)) == (Kind.CLUSTER, ["n1:6379", "n2:7000"])
    assert {(node.username, node.password.reveal(), node.database) for node in store.nodes} == {("tiergate", "word", 0)}


@pytest.mark.parametrize(
    "url",
    [
        "http://:hunter22@store",
        "redis+other://:hunter22@store",
        "unix+cluster://:hunter22@store",
        "unix://:hunter22@",
        "redis://:hunter22@store/x",
        "redis://:hunter22@store:65536",
        "redis://:hunter22@store:²",
        "redis://:hunter22@store,other",
        "redis://:hunt/er22@store",
        "redis://:hunter22@[store",
        "redis://:hunter22\u2100@store",
        "redis+sentinel://:hunter22@store",
        "redis+sentinel://:hunter22@store/main/x",
        "redis+sentinel://:hunter22@store:x/main",
        "redis+cluster://:hunter22@store/1",
    ],
)
def test_another_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"scheme|socket|number|primary|several|no URL") as refusal:
        parse_store(url)
    assert "hunt" not in str(refusal.value)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_a_password_does_not_show() -> None:
    assert "hunter22" not in repr(parse_store("redis+sentinel://:hunter22@store/main?sentinel_password=hunter22"))
