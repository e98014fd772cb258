"""The command line: one file a command."""

import click


@click.group()
@click.version_option(package_name="tiergate")
def tiergate() -> None:
    """Run one OpenAI-compatible endpoint in front of many model providers."""
