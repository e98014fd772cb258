import socket
import subprocess
import sys
from pathlib import Path

import msgspec
from click.testing import CliRunner

from gateway.cli import tiergate


def test_a_start_says_aloud_that_bodies_are_logged(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = tmp_path / "gateway.yaml"
        path.write_text(
            "providers: {p: {base_url: https://a.example}}\n"
            "models: {m: {deployments: [{provider: p, model: m}], price: {input: 1, output: 1}}}\n"
            "telemetry: {log_bodies: true}\n"
            f"state_dir: {tmp_path}\n"
        )
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "gateway", "serve", "--config", str(path), "--host", "127.0.0.1", "--port", port]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    told = "telemetry.log_bodies: prompts and answers are written to the log, for whoever reads it"
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (69, f"warning: {path}:3: {told}")
    (line,) = map(msgspec.json.decode, ended.stdout.splitlines())
    assert (line["level"], line["event"]) == ("warning", "bodies_logged")
    checked = CliRunner().invoke(tiergate, ["check", str(path), "--strict"], obj={})
    assert (checked.exit_code, told in checked.stderr) == (78, True)


def test_a_file_that_is_not_there_ends_the_command_with_one_line() -> None:
    ended = CliRunner().invoke(tiergate, ["serve", "--config", "missing.yaml"], obj={})
    assert ended.exit_code == 78
    assert ended.output.count("\n") == 1
    assert "missing.yaml" in ended.output
