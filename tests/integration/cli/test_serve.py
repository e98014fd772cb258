from click.testing import CliRunner

from gateway.cli import tiergate


def test_a_file_that_is_not_there_ends_the_command_with_one_line() -> None:
    ended = CliRunner().invoke(tiergate, ["serve", "--config", "missing.yaml"], obj={})
    assert ended.exit_code == 78
    assert ended.output.count("\n") == 1
    assert "missing.yaml" in ended.output
