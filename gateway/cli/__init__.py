"""The command line: one file a command, loaded when the command is called.

`serve` lives as long as the gateway and is to stay small: it must not carry what `usage` reads its reports with.
"""

import pkgutil

import click

COMMANDS = (
    "check",
    "config",
    "db",
    "demo",
    "doctor",
    "explain",
    "import",
    "keys",
    "presets",
    "schema",
    "serve",
    "upstreams",
    "usage",
)
"""Each is the object of this name in the module of this name, but for those that Python has as words of its own."""

SPELLED = {"import": "importing"}


class Commands(click.Group):
    """Commands that are imported when they are looked up."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Return the command of this name, or None where there is none."""
        if name not in COMMANDS:
            return None
        place = SPELLED.get(name, name)
        command: click.Command = pkgutil.resolve_name(f"gateway.cli.{place}:{place}")
        return command


@click.group(cls=Commands)
@click.version_option(package_name="tiergate")
def tiergate() -> None:
    """Run one OpenAI-compatible endpoint in front of many model providers."""
