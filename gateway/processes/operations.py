"""The operations port's application, over the workers of this gateway and its ledger.

The supervisor loads this when the workers are on their way: it takes as long to import as they do.
"""

import contextlib
from collections.abc import AsyncIterator

from gateway.config import Config
from gateway.processes.server import Asgi
from gateway.stores.database import Reader
from gateway.stores.reports import Reports
from gateway.web.ops import OpsView, build_ops


@contextlib.asynccontextmanager
async def operations(view: OpsView, config: Config) -> AsyncIterator[Asgi]:
    """Open what the operations port reads from, for as long as it is served."""
    reader = Reader(config.database.url.reveal())
    try:
        yield build_ops(view, Reports(reader), config.ops.admin_token)
    finally:
        await reader.close()
