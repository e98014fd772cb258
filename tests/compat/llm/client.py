"""The command `llm`, told of the gateway by its `extra-openai-models.yaml`."""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.compat import scenarios
from tests.compat.scenarios import (
    FAILING,
    FLAKY,
    FLAKY_WORDS,
    GREETING,
    LATE,
    LONG,
    SCHEMA,
    SILENT,
    SYSTEM,
    TEXT,
    chosen,
    holds,
    late,
    same,
)

COMMAND = Path(sys.executable).with_name("llm")
SHORT = ("-o", "max_tokens", "12", "-o", "temperature", "0")


class Scenarios:
    """Every public method is one."""

    def __init__(self, told: scenarios.Told, directory: Path) -> None:
        self._told = told
        self._environment = {**os.environ, "LLM_USER_PATH": str(directory)}
        own: dict[str, dict[str, Any]] = {TEXT: {"supports_schema": True}, "old": {"model_name": TEXT, "completion": True}}
        models = [
            {"model_id": name, "model_name": name, "api_base": f"{told.url}/v1", "api_key_name": "gateway", **own.get(name, {})}
            for name in (TEXT, "old", "none", FAILING, FLAKY, LATE, SILENT)
        ]
        (directory / "extra-openai-models.yaml").write_text(json.dumps(models))
        (directory / "keys.json").write_text(json.dumps({"gateway": told.secret}))

    def models(self) -> None:
        code, said, _ = self._run("models")
        same("exit code", code, 0)
        holds("models", TEXT in said, said)

    def prompt(self) -> None:
        self._answered(TEXT, "--no-stream")

    def prompt_stream(self) -> None:
        self._answered(TEXT)

    def conversation(self) -> None:
        same("exit code", self._run("-m", TEXT, *SHORT, GREETING)[0], 0)
        self._answered(TEXT, "--continue")

    def completion(self) -> None:
        code, said, complaint = self._run("-m", "old", *SHORT, "--no-stream", GREETING)
        same("exit code", (code, complaint), (0, ""))
        holds("text", said.strip(), repr(said))

    def completion_stream(self) -> None:
        code, said, complaint = self._run("-m", "old", *SHORT, GREETING)
        same("exit code", (code, complaint), (0, ""))
        holds("text", said.strip(), repr(said))

    def schema(self) -> None:
        code, said, _ = self._run("-m", TEXT, "-o", "temperature", "0", "--schema", json.dumps(SCHEMA), GREETING)
        same("exit code", code, 0)
        chosen(json.loads(said))

    def wrong_key(self) -> None:
        self._refused(401, "-m", TEXT, "--key", "sk-wrong-0123456789", GREETING)

    def unknown_model(self) -> None:
        self._refused(404, "-m", "none", GREETING)

    def long_prompt(self) -> None:
        self._refused(400, "-m", TEXT, LONG)

    def rate_limit(self) -> None:
        self._refused(429, "-m", TEXT, "--key", self._told.poor, GREETING)

    def provider_fails(self) -> None:
        self._refused(502, "-m", FAILING, GREETING)

    def broken_stream(self) -> None:
        code, said, complaint = self._run("-m", FLAKY, GREETING)
        same("exit code", code, 1)
        same("words before it", len(said.split()), FLAKY_WORDS)
        holds("complaint", "broke off" in complaint, complaint)

    def commented_stream(self) -> None:
        code, said, complaint = self._run("-m", LATE, "--key", self._told.patient, GREETING)
        same("exit code", (code, complaint), (0, ""))
        late(said)

    def commented_failure(self) -> None:
        code, said, complaint = self._run("-m", SILENT, "--key", self._told.patient, GREETING)
        same("exit code", (code, said.strip()), (1, ""))
        holds("complaint", complaint.startswith("Error: "), complaint)

    def _answered(self, model: str, *options: str) -> None:
        code, said, complaint = self._run("-m", model, "-s", SYSTEM, "--usage", *SHORT, *options, GREETING)
        same("exit code", code, 0)
        holds("text", said.strip(), repr(said))
        holds("usage", "input" in complaint and "12 output" in complaint, complaint)

    def _refused(self, status: int, *arguments: str) -> None:
        ended, said, complaint = self._run(*arguments)
        same("exit code", (ended, said), (1, ""))
        holds("complaint", f"Error code: {status} - " in complaint, complaint)

    def _run(self, *arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [COMMAND, *arguments], env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="llm") as name:
        scenarios.play(f"llm {version('llm')}", Scenarios(scenarios.told(), Path(name)))
