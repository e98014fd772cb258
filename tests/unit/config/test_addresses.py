import pytest

from gateway.config.addresses import collector_problem, endpoint, is_public_http, url_problem

METADATA = [
    "169.254.169.254",
    "169.254.169.254.",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[::ffff:169.254.169.254]",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "168.63.129.16",
    "metadata.google.internal",
    "METADATA.google.internal.",
]


@pytest.mark.parametrize("host", METADATA)
def test_metadata_is_never_called_however_it_is_written(host: str) -> None:
    for scheme in ("http", "https"):
        assert url_problem(f"{scheme}://{host}:80/v1", allow_http=True) == "link-local and metadata addresses are never called"


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:8000", "10.0.0.1", "[::1]:8000", "vllm.svc", "api.example.com", "face.b00c"]
)
def test_other_hosts_are_the_operators_choice(host: str) -> None:
    assert url_problem(f"http://{host}/v1", allow_http=True) is None
    assert "allow_http" in (url_problem(f"http://{host}/v1", allow_http=False) or "")
    assert url_problem(f"https://{host}/v1", allow_http=False) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://a/b",
        "https://",
        "https://:443/",
        "https://a:b/",
        "https://[::1/",
        "https://u:p@a/",
        "https://a/?k=v",
    ],
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    problem = url_problem(url, allow_http=True)
    assert problem is not None
    assert "u:p" not in problem


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("http://api.example.com/v1", True),
        ("http://8.8.8.8/v1", True),
        ("https://api.example.com/v1", False),
        ("http://10.0.0.1/v1", False),
        ("http://localhost/v1", False),
        ("http://vllm.models.svc/v1", False),
        ("http://box.local./v1", False),
    ],
)
def test_plain_http_is_remarked_on_only_in_public(url: str, public: bool) -> None:
    assert is_public_http(url) is public


def test_the_port_follows_the_scheme() -> None:
    assert endpoint("https://a.example/v1") == ("https", "a.example", 443)
    assert endpoint("http://[::1]:8000/v1") == ("http", "::1", 8000)


@pytest.mark.parametrize(
    "url", ["", "http://collector:4318", "https://otlp.example.com/tenant", "http://169.254.1.1:4318/v1/traces"]
)
def test_where_a_collector_may_be(url: str) -> None:
    assert collector_problem(url) is None


@pytest.mark.parametrize(
    "url", ["collector:4318", "grpc://collector:4317", "http://", "http://c:b/", "http://[::1/", "http://u:p@c", "http://c?k=v"]
)
def test_where_no_collector_is(url: str) -> None:
    problem = collector_problem(url)
    assert problem is not None
    assert "u:p" not in problem
