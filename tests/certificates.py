"""Certificates of a test's own authority, as files: what listeners show, and what clients trust."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, load_pem_private_key

AUTHORITY = trustme.CA()
NAMES = ("localhost", "127.0.0.1")


class Pems(msgspec.Struct, frozen=True):
    """Where a listener's certificate and its key are."""

    cert: Path
    key: Path

    @property
    def section(self) -> dict[str, str]:
        """Return them as a configuration names them."""
        return {"cert": str(self.cert), "key": str(self.key)}

    @property
    def der(self) -> bytes:
        """Return the certificate as a client sees it."""
        own, end, _ = self.cert.read_text().partition("-----END CERTIFICATE-----")
        return ssl.PEM_cert_to_DER_cert(own + end)


def issue(directory: Path, name: str = "listener", **options: Any) -> Pems:
    """Write a new certificate, over the one before."""
    made = AUTHORITY.issue_cert(*NAMES, **options)
    pems = Pems(directory / f"{name}.pem", directory / f"{name}.key")
    pems.cert.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
    pems.key.write_bytes(made.private_key_pem.bytes())
    pems.key.chmod(0o600)
    return pems


def encrypt(key: Path, form: PrivateFormat) -> None:
    """Give a key a password."""
    private = load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(private.private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"password")))


def days_from_now(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def trust() -> ssl.SSLContext:
    """Return what a client that trusts the authority begins with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    return context
