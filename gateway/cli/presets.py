"""`tiergate presets`: what is known of the vendors, for `providers.*.preset`."""

import click

from gateway.cli.table import aligned
from gateway.config.presets import Preset, Source
from gateway.config.presets import presets as shipped

COLUMNS = ("preset", "base URL", "endpoints", "tiers", "source")


@click.command()
def presets() -> None:
    """Print the presets of vendors, and what each of them goes by."""
    click.echo(aligned([COLUMNS, *(line_of(name, preset) for name, preset in sorted(shipped().items()))]))


def line_of(name: str, preset: Preset) -> tuple[str, ...]:
    """Return one preset's line."""
    tiers = ", ".join(f"{ours}: {theirs}" for ours, theirs in preset.tiers.items())
    return name, preset.base_url or "your own", ", ".join(preset.endpoints), tiers or "-", source_of(preset.source)


def source_of(source: Source) -> str:
    """Return what a preset goes by, the day first, and whether it has been run against the real thing."""
    return f"{source.date}, {'run' if source.run else 'not run'}: {source.documentation}"
