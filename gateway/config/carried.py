"""A configuration on its way from one process of the gateway to another: whole, secrets and all, so on private ways alone."""

import hmac
from pathlib import Path
from typing import Any

import msgspec

from gateway.config.certificates import Certificate
from gateway.config.structs import Config
from gateway.policy.catalogue import Secret


def revealed(value: Any) -> str:
    """Return what a codec does not know as text that `rebuilt` takes back."""
    return value.reveal() if isinstance(value, Secret) else str(value)


def rebuilt(kind: type, value: Any) -> Any:
    """Return the value of a type that a codec does not know."""
    return kind(value)


_encoder = msgspec.json.Encoder(enc_hook=revealed)


class Edition(msgspec.Struct, frozen=True):
    """One reading of the configuration as workers are told of it: which one it is of those that followed each other.

    `certificate` is what the API's listener shows, None where it speaks plain HTTP.
    """

    number: int
    config: Config
    certificate: Certificate | None = None


def encode_edition(edition: Edition) -> bytes:
    """Return a reading as a worker is told of it."""
    return _encoder.encode(edition)


_decode = msgspec.json.Decoder(Edition, dec_hook=rebuilt).decode


def decode_edition(raw: bytes) -> Edition:
    """Return the reading that a worker is told of. Raises msgspec.ValidationError."""
    return _decode(raw)


def document(config: Config) -> dict[str, Any]:
    """Return every field with its value, secrets too: to compare, never to show."""
    found: dict[str, Any] = msgspec.json.decode(_encoder.encode(config))
    return found


def fingerprint(config: Config, pepper: bytes) -> str:
    """Return what two configurations have in common only where they mean the same, what they trust included.

    It is made with the pepper, so that nobody can try out secrets by it. Raises OSError for a `ca_file` that cannot be read.
    """
    trusted = {provider.ca_file for provider in config.providers.values() if provider.ca_file is not None}
    made = hmac.new(pepper, _encoder.encode(config), "sha256")
    for name in sorted(trusted):
        made.update(Path(name).read_bytes())
    return made.hexdigest()[:16]
