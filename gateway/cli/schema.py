"""`tiergate schema`: print the JSON Schema of the configuration file."""

import click

from gateway.config.schema import schema as json_schema


@click.command()
def schema() -> None:
    """Print the JSON Schema of the configuration file."""
    click.echo(json_schema(), nl=False)
