"""The metrics that OpenTelemetry's conventions for generative AI name, projected from the same cells.

Their names and buckets are https://github.com/open-telemetry/semantic-conventions-genai's, with underscores and base units as
Prometheus has them. Towards providers the gateway is the client, towards its callers the server. A provider is named as the
configuration names it; `error_type` is empty where there was no error, which is as if it were not there.
"""

from collections.abc import Iterator

from prometheus_client.core import Metric

from gateway.policy.record import Outcome
from gateway.telemetry import families
from gateway.telemetry.cells import Cells
from gateway.telemetry.histogram import FIRST_BYTE_BOUNDS_S, FIRST_TOKEN_BOUNDS_S, NEXT_TOKEN_BOUNDS_S, TOKEN_BOUNDS, Histogram
from gateway.telemetry.labels import NONE, OTHER
from gateway.telemetry.metrics import Key, add, histogram

NO_ERROR = ""


def gen_ai(cells: Cells) -> Iterator[Metric]:
    """Yield these families."""
    yield from _of_requests(cells)
    yield from _of_attempts(cells)


def _of_requests(cells: Cells) -> Iterator[Metric]:
    tokens: dict[Key, Histogram] = {}
    durations: dict[Key, Histogram] = {}
    first_tokens: dict[Key, Histogram] = {}
    next_tokens: dict[Key, Histogram] = {}
    for cell in list(cells.requests.values()):
        if cell.provider == NONE:
            continue
        whose = (cells.labels.operations.get(cell.route, OTHER), cell.provider, cell.model)
        error = NO_ERROR if cell.outcome == Outcome.OK else cell.outcome
        add(tokens, (*whose, "input"), cell.inputs, TOKEN_BOUNDS)
        add(tokens, (*whose, "output"), cell.outputs, TOKEN_BOUNDS)
        add(durations, (*whose, error), cell.duration, FIRST_BYTE_BOUNDS_S)
        add(first_tokens, whose, cell.first_token, FIRST_TOKEN_BOUNDS_S)
        add(next_tokens, whose, cell.next_token, NEXT_TOKEN_BOUNDS_S)
    yield histogram(families.TOKEN_USAGE, tokens)
    yield histogram(families.SERVER_DURATION, durations)
    yield histogram(families.FIRST_TOKEN, first_tokens)
    yield histogram(families.NEXT_TOKEN, next_tokens)


def _of_attempts(cells: Cells) -> Iterator[Metric]:
    durations: dict[Key, Histogram] = {}
    first_chunks: dict[Key, Histogram] = {}
    for (provider, model, outcome, _, route), cell in list(cells.attempts.items()):
        whose = (cells.labels.operations.get(route, OTHER), provider, model)
        add(durations, (*whose, NO_ERROR if outcome == "ok" else outcome), cell.duration, FIRST_BYTE_BOUNDS_S)
        add(first_chunks, whose, cell.first_chunk, FIRST_BYTE_BOUNDS_S)
    yield histogram(families.CLIENT_DURATION, durations)
    yield histogram(families.FIRST_CHUNK, first_chunks)
