"""`tiergate check` as an operator meets it: files on a disk, a listening provider, exit codes."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import tiergate
from gateway.config.schema import schema
from tests.certificates import days_from_now, issue

EXAMPLE = Path(__file__).parents[3] / "config" / "gateway.yaml"
ENVIRON = {"DEEPINFRA_API_KEY": "sk-a", "NEBIUS_API_KEY": "sk-b", "CI_KEY": "0123456789abcdef", "NIGHTLY_KEY": "0123456789abcdeg"}


def check(path: Path, *options: str, **environ: str) -> Result:
    return CliRunner().invoke(tiergate, ["check", str(path), *options], obj=environ)


def minimal(directory: Path, base_url: str) -> Path:
    path = directory / "gateway.yaml"
    path.write_text(
        f"providers: {{local: {{base_url: '{base_url}', allow_http: true, api_key: '${{file:{directory}/key}}'}}}}\n"
        "models: {small: {deployments: [{provider: local, model: s}], price: {input: 1, output: 2}}}\n"
    )
    (directory / "key").write_text("sk-of-the-provider\n")
    return path


def test_the_example_is_sound_and_strictly_so() -> None:
    result = check(EXAMPLE, "--strict", **ENVIRON)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("config ok: 2 providers, 2 models, 2 plans, 1 org, 2 keys\n")


def test_the_example_names_each_variable_that_it_lacks() -> None:
    result = check(EXAMPLE)
    assert result.exit_code == 78
    assert [line.rpartition(": ")[2] for line in result.stderr.splitlines()] == [
        f"environment variable {name} is not set" for name in ENVIRON
    ]
    assert all(line.startswith(f"{EXAMPLE}:") for line in result.stderr.splitlines())


def test_a_listener_without_a_sound_certificate_is_an_error_of_check_and_of_start(tmp_path: Path) -> None:
    path = minimal(tmp_path, "https://a.example")
    pems = issue(tmp_path, not_before=days_from_now(-9), not_after=days_from_now(-1))
    lines = path.read_text().count("\n")
    tls = f"{{cert: {pems.cert}, key: {tmp_path}/none.key}}"
    path.write_text(f"{path.read_text()}api: {{tls: {tls}}}\nops: {{tls: {{cert: {pems.cert}, key: {pems.key}}}}}\n")
    expected = [
        f"{path}:{lines + 1}: api.tls.key: {tmp_path}/none.key cannot be read: No such file or directory",
        f"{path}:{lines + 2}: ops.tls.cert: {pems.cert} has expired: it ended at ",
    ]
    for words in (["check", str(path)], ["serve", "--config", str(path)]):
        result = CliRunner().invoke(tiergate, words, obj={})
        found = result.stderr.splitlines()
        assert (result.exit_code, len(found)) == (78, 2)
        assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))


@pytest.mark.parametrize(("content", "message"), [(None, "cannot be read: No such file or directory"), ("", "the file is empty")])
def test_a_file_that_is_none_is_an_error_of_the_configuration(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "gateway.yaml"
    if content is not None:
        path.write_text(content)
    result = check(path)
    assert (result.exit_code, result.stdout) == (78, "")
    assert result.stderr.strip().endswith(message)


def test_a_warning_is_an_error_only_when_strict(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text("providers: {p: {base_url: https://a.example}}\nmodels: {m: {deployments: [{provider: p, model: m}]}}\n")
    warning = f"warning: {path}:2: models.m.price: is missing: what this model costs is recorded as unknown\n"
    assert (check(path).exit_code, check(path).stderr) == (0, warning)
    assert (check(path, "--strict").exit_code, check(path, "--strict").stderr) == (78, warning)


def test_online_connects_to_each_provider(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        path = minimal(tmp_path, f"http://127.0.0.1:{port}/v1")
        assert check(path, "--online").exit_code == 0
    result = check(path, "--online")
    assert (result.exit_code, result.stderr) == (69, "providers.local.base_url: cannot be reached: Connection refused\n")


def test_online_wants_tls_where_the_url_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.listen()
        path = minimal(tmp_path, f"https://127.0.0.1:{server.getsockname()[1]}/v1")
        server.close()
        result = check(path, "--online")
    assert result.exit_code == 69


def test_schema_prints_what_is_committed() -> None:
    result = CliRunner().invoke(tiergate, ["schema"])
    assert result.stdout_bytes == schema()


REFUSE = "TIERGATE_REFUSE_EMBEDDED"


@pytest.mark.parametrize("command", [["check"], ["serve", "--config"]])
def test_one_of_several_gateways_keeps_nothing_for_itself(command: list[str], tmp_path: Path) -> None:
    path = minimal(tmp_path, "http://127.0.0.1:9/v1")
    result = CliRunner().invoke(tiergate, [*command, str(path)], obj={REFUSE: "1"})
    assert (result.exit_code, result.stdout) == (78, "")
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["database.url", "redis.url"]
    assert all(REFUSE in line for line in result.stderr.splitlines())


@pytest.mark.parametrize("value", ["", "0"])
def test_one_alone_may(value: str, tmp_path: Path) -> None:
    assert check(minimal(tmp_path, "http://127.0.0.1:9/v1"), **{REFUSE: value}).exit_code == 0


def test_what_is_refused_is_told_on_its_own_line(tmp_path: Path) -> None:
    path = minimal(tmp_path, "http://127.0.0.1:9/v1")
    path.write_text(
        f"redis: {{url: '${{URL}}'}}\ndatabase: {{single_host: true}}\nkeys_pepper: 0123456789abcdef\n{path.read_text()}"
    )
    own = check(path, **{REFUSE: "1", "URL": "redis://:a-secret-word@redis"})
    embedded = check(path, **{REFUSE: "1", "URL": "embedded"})
    assert [line.split(": ")[:2] for line in own.stderr.splitlines()] == [[f"{path}:2", "database.url"]]
    assert [line.split(": ")[:2] for line in embedded.stderr.splitlines()] == [
        [f"{path}:1", "redis.url"],
        [f"{path}:2", "database.url"],
    ]
