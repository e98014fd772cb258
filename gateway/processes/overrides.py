"""What the command line says over the file. Pure."""

import msgspec
from msgspec.structs import replace

from gateway.config import Config


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one start; None leaves the file's."""

    host: str | None = None
    port: int | None = None
    ops_port: int | None = None
    workers: int | None = None

    def over(self, config: Config) -> Config:
        """Return the configuration with these settings in it."""
        return replace(
            config,
            api=replace(config.api, host=self.host or config.api.host, port=chosen(self.port, config.api.port)),
            ops=replace(config.ops, port=chosen(self.ops_port, config.ops.port)),
            workers=self.workers or config.workers,
        )


def chosen(override: int | None, configured: int) -> int:
    """Return the override where there is one; 0 is one, it lets the system choose a port."""
    return configured if override is None else override
