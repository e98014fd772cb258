"""What a listener shows its clients over TLS: read from the PEM files that a configuration names, and tried before it is shown.

The supervisor reads the files, once for all that serve: what workers are told they only have to take, whatever the files are by
then. Nothing that is said of them holds a byte of a key.
"""

import os
import re
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

import msgspec

from gateway.config.files import Files
from gateway.config.parse import Parsed
from gateway.config.problems import Problem, render
from gateway.config.structs import Config
from gateway.config.structs.serving import Tls

PROTOCOL = "http/1.1"
"""What clients may choose by ALPN; one that offers nothing of it is served the same."""

NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""OpenSSL's, which Python has no name for: dates are compared here, so that messages can tell them."""

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_KEY = re.compile(rb"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----")
_NO_FIT = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})


class Certificate(msgspec.Struct, frozen=True):
    """A chain, the listener's own certificate first, and the key that it goes with: what is in two PEM files."""

    chain: bytes
    key: bytes

    def __repr__(self) -> str:
        """Return the name alone: the key is secret."""
        return "Certificate()"


class Certificates(msgspec.Struct, frozen=True):
    """Those of both listeners, None for one that speaks plain HTTP."""

    api: Certificate | None = None
    ops: Certificate | None = None


class UnusableError(Exception):
    """A file that no listener can be opened with. `field` is the one that names it: `cert` or `key`."""

    def __init__(self, field: str, message: str, listener: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.where = (listener, "tls", field)

    @property
    def problem(self) -> Problem:
        """Return it as one of the whole configuration."""
        return Problem(0, render(self.where), str(self))


def listeners(config: Config) -> Iterator[tuple[str, Tls]]:
    """Yield the name of each listener that speaks TLS, and what the configuration says of it."""
    for name, tls in (("api", config.api.tls), ("ops", config.ops.tls)):
        if tls is not None:
            yield name, tls


def check(parsed: Parsed, files: Files) -> Iterator[Problem]:
    """Yield what is wrong with the files of each listener."""
    for name, tls in listeners(parsed.config):
        try:
            sound(name, tls, files)
        except UnusableError as error:
            yield parsed.problem(error.where, str(error))


def certificates_of(config: Config, files: Files) -> Certificates:
    """Return what the listeners of a configuration show. Raises UnusableError."""
    return Certificates(**{name: sound(name, tls, files) for name, tls in listeners(config)})


def sound(listener: str, tls: Tls, files: Files) -> Certificate:
    """Return what a listener shows. Raises UnusableError, with the path of the file."""
    try:
        certificate = read(tls, files)
        tried(certificate)
    except UnusableError as error:
        raise UnusableError(error.field, f"{getattr(tls, error.field)} {error}", listener) from None
    return certificate


def read(tls: Tls, files: Files) -> Certificate:
    """Return what is in the files. Raises UnusableError for one that is not what it has to be."""
    chain, key = (_content(field, name, files) for field, name in (("cert", tls.cert), ("key", tls.key)))
    if _CERTIFICATE.search(chain) is None:
        raise UnusableError("cert", "holds no certificate in PEM")
    if _KEY.search(key) is None:
        raise UnusableError("key", "holds no private key in PEM")
    return Certificate(chain, key)


def tried(certificate: Certificate) -> datetime:
    """Return when the listener's own certificate ends. Raises UnusableError for one that no client would take now."""
    trust = trusting(certificate)
    shown = _shown_to_a_client(context_of(certificate), trust)
    begins, ends = (datetime.fromtimestamp(ssl.cert_time_to_seconds(shown[name]), UTC) for name in ("notBefore", "notAfter"))
    now_s = time.time()
    if ends.timestamp() <= now_s:
        raise UnusableError("cert", f"has expired: it ended at {ends:%Y-%m-%dT%H:%M:%SZ}")
    if begins.timestamp() > now_s:
        raise UnusableError("cert", f"is not valid yet: it begins at {begins:%Y-%m-%dT%H:%M:%SZ}")
    return ends


def context_of(certificate: Certificate) -> ssl.SSLContext:
    """Return what connections begin with. Raises UnusableError for a key that the certificate is not of."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # a client's way to have the dear part of a handshake done again and again
    context.set_alpn_protocols([PROTOCOL])
    with _as_file(certificate.chain) as chain, _as_file(certificate.key) as key:
        try:
            context.load_cert_chain(chain, key, password=_nobody)
        except ssl.SSLError as error:
            if error.reason in _NO_FIT:
                raise UnusableError("key", "does not fit the certificate of this listener") from None
            raise UnusableError("key", f"cannot be used with its certificate: {_reason(error)}") from None
    return context


def trusting(certificate: Certificate) -> ssl.SSLContext:
    """Return what a client on this machine begins with: it knows the certificate itself, whatever name it is for.

    Raises UnusableError for a chain that cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    chain = _chain(certificate.chain)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=b"".join(chain))
        context.load_verify_locations(cadata=chain[0])
    except ssl.SSLError as error:
        raise UnusableError("cert", f"holds a certificate that cannot be read: {_reason(error)}") from None
    return context


class Contexts:
    """`contexts()` is what a new connection begins with: made once of each certificate that is `current`."""

    def __init__(self, current: Callable[[], Certificate | None], first: Certificate) -> None:
        self._current = current
        self._certificate = first
        self._context = context_of(first)

    @classmethod
    def of(cls, current: Callable[[], Certificate | None]) -> Self | None:
        """Return those of a listener, None where it speaks plain HTTP; whether it does is settled at the start."""
        first = current()
        return None if first is None else cls(current, first)

    def __call__(self) -> ssl.SSLContext:
        """Return it."""
        certificate = self._current()
        if certificate is not None and certificate != self._certificate:
            self._context, self._certificate = context_of(certificate), certificate
        return self._context


def _content(field: str, name: str, files: Files) -> bytes:
    try:
        return files.read(name)
    except OSError as error:
        raise UnusableError(field, f"cannot be read: {error.strerror or type(error).__name__}") from None


def _chain(pem: bytes) -> list[bytes]:
    """Return the certificates in DER."""
    try:
        return [ssl.PEM_cert_to_DER_cert(found.decode("ascii")) for found in _CERTIFICATE.findall(pem)]
    except ValueError:
        raise UnusableError("cert", "holds a certificate that cannot be read: no base64") from None


def _shown_to_a_client(context: ssl.SSLContext, trust: ssl.SSLContext) -> dict[str, Any]:
    """Return what a client makes of the certificate, by a whole handshake in memory: nothing in Python reads one otherwise."""
    trust.verify_flags |= NO_CHECK_TIME
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue  # for what the other side says next
        except ssl.SSLError as error:
            raise UnusableError("cert", f"is none that a client would take: {_reason(error)}") from None
    shown: dict[str, Any] | None = client.getpeercert()
    return shown or {}


def _reason(error: ssl.SSLError) -> str:
    told = getattr(error, "verify_message", None) or error.reason or type(error).__name__
    return str(told).lower().replace("_", " ")


def _nobody() -> bytes:
    """Stand in for a person at a terminal, whom OpenSSL would ask."""
    raise UnusableError("key", "is encrypted: there is nobody to ask for its password at a start")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path where OpenSSL, which reads from paths alone, finds these bytes; nameless, and on no disk where possible."""
    with open(os.memfd_create("pem"), "w+b") if sys.platform == "linux" else tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"
