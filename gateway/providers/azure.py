"""The dialect of Azure OpenAI: OpenAI's, but for the credential's header and, at the classic endpoint, the deployment's path.

With an `api_version` calls go to `/deployments/{deployment}/…?api-version=…`, and the path alone names the model; without one
they go to the v1 API, which has it in the body as OpenAI does. Responses have it there at both. Pure.
"""

from urllib.parse import quote

from gateway.policy.catalogue import Deployment
from gateway.providers.openai import OpenAI
from gateway.wire.request import Endpoint


class Azure(OpenAI):
    """The dialect as one resource speaks it; see `gateway.providers.protocol.Dialect`."""

    def _credential(self, key: str) -> dict[str, str]:
        return {"api_key": key}

    def _place(self, endpoint: Endpoint, deployment: Deployment) -> tuple[str, bytes | None]:
        path, model = super()._place(endpoint, deployment)
        version = self._provider.api_version
        if version is None:
            return path, model
        version = quote(version, safe="")
        if endpoint is Endpoint.RESPONSES:
            return f"{path}?api-version={version}", model
        return f"/deployments/{quote(deployment.upstream_model, safe='')}{path}?api-version={version}", None
