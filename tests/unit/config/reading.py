"""A file's text, read without an environment or files unless a test brings them."""

from collections.abc import Mapping

from gateway.config.check import Findings, check
from gateway.config.parse import Parsed, parse
from gateway.config.problems import Problem
from gateway.config.references import Sources
from gateway.config.structs import Config

MINIMAL = """
providers: {local: {base_url: https://api.example.com/v1}}
models: {small: {deployments: [{provider: local, model: s}], price: {input: 1, output: 2}}}
"""


def _no_file(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


def read(text: str, environ: Mapping[str, str] | None = None) -> Parsed:
    return parse(text.encode(), Sources(environ or {}, _no_file))


def config(text: str, environ: Mapping[str, str] | None = None) -> Config:
    """Return the configuration of a sound file: the minimal one and `text`."""
    parsed = read(MINIMAL + text, environ)
    assert lines(parsed.problems) == []
    return parsed.config


def findings(text: str, environ: Mapping[str, str] | None = None) -> Findings:
    return check(read(MINIMAL + text, environ))


def lines(problems: object) -> list[str]:
    assert isinstance(problems, list | tuple)
    return [f"{problem.where}: {problem.message}" for problem in problems if isinstance(problem, Problem)]
