"""Where a deployment is served: the account of an entry of `model_list`, as one of our `providers`.

Entries that say the same are one provider. Names are the vendors', or a server's host.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gateway.config.problems import Where
from gateway.importing.fields import Fields
from gateway.importing.findings import Findings
from gateway.importing.references import References, UnwritableError, is_reference
from gateway.importing.vendors import EVERY, Vendor

CLASSIC_VERSION = "2025-02-01-preview"
"""Azure's API version where nothing says one."""

_V1_VERSIONS = ("v1", "latest", "preview")
_OTHER_CREDENTIALS = (
    "azure_ad_token",
    "tenant_id",
    "client_id",
    "client_secret",
    "azure_scope",
    "azure_username",
    "azure_password",
    "use_xai_oauth",
    "chatgpt_auth_file",
)
_HEADERS = ("headers", "extra_headers")
_RESERVED = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-type", "authorization"})
_AS_IT_IS = ("api_key", "api_base", "base_url", "organization", "api_version", *_HEADERS, "litellm_credential_name")


class NotImportableError(Exception):
    """An entry that cannot be served here, and why."""


class Accounts:
    """The providers that entries turned out to need, by name."""

    def __init__(self, references: References, credentials: Mapping[str, Mapping[str, Any]], findings: Findings) -> None:
        self.providers: dict[str, dict[str, Any]] = {}
        self._references = references
        self._credentials = credentials
        self._findings = findings
        self._names: dict[bytes, str] = {}

    def of(self, prefix: str, vendor: Vendor, params: Fields) -> str:
        """Return the name of the provider that an entry's parameters describe.

        Raises `NotImportableError`.
        """
        said = self._said(params)
        try:
            provider = self._provider(vendor, said)
            provider |= self._headers(params, said)
        except UnwritableError as error:
            raise NotImportableError(f"a value of its account {error}") from None
        known = msgspec.json.encode(provider, order="sorted")
        name = self._names.get(known)
        if name is None:
            name = self._name(prefix, vendor, provider)
            self._names[known] = name
            self.providers[name] = provider
        self._tell(params, ("providers", name), vendor)
        return name

    def _said(self, params: Fields) -> dict[str, Any]:
        """Return what is said of the account, by the entry itself or by the credential that it names."""
        named = params.take("litellm_credential_name")
        said = dict(self._credentials.get(str(named), {})) if named is not None else {}
        if named is not None and not said:
            raise NotImportableError("its litellm_credential_name is in no credential_list of the file")
        own = {field: params.take(field) for field in (*_AS_IT_IS, *_OTHER_CREDENTIALS)}
        said |= {field: value for field, value in own.items() if value is not None}
        if "api_key" not in said and any(field in said for field in _OTHER_CREDENTIALS):
            raise NotImportableError("it has a credential other than an api_key")
        return said

    def _provider(self, vendor: Vendor, said: Mapping[str, Any]) -> dict[str, Any]:
        base = self._base(vendor, said)
        provider: dict[str, Any] = {}
        is_server = vendor.preset == "openai" and base is not None
        if vendor.preset is not None and not is_server:
            provider["preset"] = vendor.preset
        base = base or vendor.base_url
        if base is not None:
            provider["base_url"] = base
            if base.startswith("http://"):
                provider["allow_http"] = True
        key = self._key(vendor, said)
        if key:
            provider["api_key"] = key
        if vendor.preset == "azure":
            provider |= self._azure(str(base), said)
        if is_server or vendor.preset is None:
            provider["endpoints"] = list(vendor.endpoints or (EVERY if is_server else EVERY[:1]))
        return provider

    def _base(self, vendor: Vendor, said: Mapping[str, Any]) -> str | None:
        given = said.get("api_base") or said.get("base_url")
        if given is None and vendor.is_yours and vendor.base_url is None:
            if vendor.base is None:
                raise NotImportableError("its api_base is missing")
            given = f"os.environ/{vendor.base}"
        if not given:
            return None
        base = self._references.text(given).rstrip("/")
        if vendor.preset == "openai" and base == "https://api.openai.com/v1":
            return None
        return base if base.endswith(vendor.path) else base + vendor.path

    def _key(self, vendor: Vendor, said: Mapping[str, Any]) -> str | None:
        if "api_key" in said:
            return self._references.text(said["api_key"])
        optional = vendor.is_yours and vendor.preset != "azure"
        return None if optional or vendor.key is None else self._references.variable(vendor.key)

    def _azure(self, base: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is special at Azure: the v1 endpoint goes without a version, the classic one has it."""
        root = base.partition("/openai")[0].rstrip("/")
        version = said.get("api_version")
        version = f"${{AZURE_API_VERSION:-{CLASSIC_VERSION}}}" if version is None else self._references.text(version)
        if base.endswith("/openai/v1") or version in _V1_VERSIONS:
            return {"base_url": f"{root}/openai/v1"}
        return {"base_url": f"{root}/openai", "api_version": version}

    def _headers(self, params: Fields, said: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"OpenAI-Organization": self._references.text(said["organization"])} if "organization" in said else {}
        for field in _HEADERS:
            given = said.get(field) or {}
            for name, value in given.items() if isinstance(given, Mapping) else ():
                if str(name).lower() in _RESERVED:
                    self._findings.ignored((*params.at(field), str(name)), "the gateway writes this header")
                else:
                    headers[str(name)] = self._references.text(value)
        return {"headers": headers} if headers else {}

    def _name(self, prefix: str, vendor: Vendor, provider: Mapping[str, Any]) -> str:
        base = str(provider.get("base_url", ""))
        host = None if is_reference(base) else urlsplit(base).hostname
        is_own = vendor.is_yours or vendor.preset is not None
        name = str(provider.get("preset") or (host if is_own and host else prefix))
        name = re.sub(r"[^A-Za-z0-9_.@+-]+", "-", name).strip("-.@+")[:60] or prefix
        return next(
            free for n in range(1, len(self.providers) + 2) if (free := name if n == 1 else f"{name}-{n}") not in self.providers
        )

    def _tell(self, params: Fields, into: Where, vendor: Vendor) -> None:
        targets = {
            "litellm_credential_name": "api_key",
            "api_base": "base_url",
            "organization": "headers",
            "extra_headers": "headers",
        }
        if vendor.preset != "azure":
            params.ignore("api_version", "only Azure's API has versions here")
        for field in _AS_IT_IS:
            if params.take(field) is not None and (field != "api_version" or vendor.preset == "azure"):
                self._findings.exact(params.at(field), (*into, targets.get(field, field)))
        provider = self.providers[into[-1]] if isinstance(into[-1], str) else {}
        if is_reference(str(provider.get("base_url", ""))):
            note = "a variable: allow_http: true is needed beside it for a plain http:// address"
            self._findings.approximate(params.at("api_base"), (*into, "base_url"), note)
        if vendor.note:
            self._findings.approximate(params.at("model"), into, vendor.note)
