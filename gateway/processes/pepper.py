"""The secret that goes into every key's digest: the configuration's, else one that the state directory keeps."""

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

from gateway.config import Config

PEPPER_BYTES = 32


def pepper_of(config: Config, state_dir: Path) -> bytes:
    """Return what the digests of this configuration's keys are made with; one that is kept is made on first use."""
    if config.keys_pepper is not None:
        return config.keys_pepper.reveal().encode()
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return kept_pepper(state_dir)


def kept_pepper(state_dir: Path) -> bytes:
    """Return the pepper of this state directory, made on first use and readable by its owner alone.

    It appears whole or not at all, and the first of two makers wins: keys minted with another would never be found again.
    """
    path = state_dir / "pepper"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=state_dir, prefix="pepper.") as draft:
            draft.write(secrets.token_hex(PEPPER_BYTES))
            draft.flush()
            os.fsync(draft.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft.name, path)
    return path.read_bytes()
