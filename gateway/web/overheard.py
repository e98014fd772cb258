"""An inference endpoint whose bodies are logged. Where they are not, nothing of this stands in a request's way."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from gateway.pipeline import Visit
from gateway.policy.credentials import carrier
from gateway.telemetry.bodies import Body
from gateway.web.client import Client, Steps
from gateway.web.inference import Inference


class Listening:
    """An answer's steps on their way to a client, whose pieces are kept too once they are gone."""

    def __init__(self, heard: Body, answer: Steps) -> None:
        self._heard = heard
        self._answer = answer

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send a head, which nobody keeps."""
        await self._answer.start(status, headers)

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body."""
        await self._answer.write(piece)
        self._heard.add(piece)

    async def finish(self, piece: bytes) -> None:
        """Send the last piece and end the answer."""
        await self._answer.finish(piece)
        self._heard.add(piece)


class Overheard(Inference):
    """One endpoint at one path, and what is asked and answered there."""

    async def _serve(self, visit: Visit, client: Client) -> None:
        request_id = visit.record.request_id
        secrets = [secret.reveal() for secret in self._floor.caps.hidden or ()]
        asked, answered = Body("request_body"), Body("response_body")

        async def read() -> bytes:
            body = await visit.body()
            secrets.append(carrier(visit.headers) or "")  # whoever is let in may have it in the body as well
            asked.add(body)
            asked.write(request_id, secrets)
            return body

        client.send_through(partial(Listening, answered))
        try:
            await super()._serve(replace(visit, body=read), client)
        finally:
            if answered.length_bytes:
                answered.write(request_id, secrets)
