import click
import pytest
from click.testing import CliRunner

from gateway.cli import COMMANDS, tiergate


def test_help_lists_every_command_with_what_it_does() -> None:
    lines = CliRunner().invoke(tiergate, ["--help"], obj={}).output.splitlines()
    for name in COMMANDS:
        assert any(line.split()[:1] == [name] and len(line.split()) > 1 for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_name_that_it_is_called_by(name: str) -> None:
    command = tiergate.get_command(click.Context(tiergate), name)
    assert command is not None
    assert command.name == name


def test_a_word_that_is_no_command_is_refused() -> None:
    ended = CliRunner().invoke(tiergate, ["surf"], obj={})
    assert ended.exit_code == 2
    assert "surf" in ended.output
