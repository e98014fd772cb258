"""The command line: one file a command."""

import click

from gateway.cli.check import check
from gateway.cli.demo import demo
from gateway.cli.schema import schema
from gateway.cli.serve import serve
from gateway.cli.usage import usage


@click.group()
@click.version_option(package_name="tiergate")
def tiergate() -> None:
    """Run one OpenAI-compatible endpoint in front of many model providers."""


tiergate.add_command(check)
tiergate.add_command(demo)
tiergate.add_command(schema)
tiergate.add_command(serve)
tiergate.add_command(usage)
