"""`python -m tests.browser.vendor [VERSION]`: fetch the files of others that the dashboard has, from npm.

Without a version it fetches the one that there is, whose files have to be as they were.
"""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import msgspec

from gateway.web.pages import FILES

VENDOR = FILES / "vendor"
LISTED = VENDOR / "vendor.json"
TAKEN = {"package/dist/uPlot.iife.min.js": "uPlot.iife.min.js", "package/dist/uPlot.min.css": "uPlot.min.css"}
LICENCE = {"package/LICENSE": "uPlot.LICENSE.txt"}


class Vendored(msgspec.Struct):
    """A package of npm, and the SHA-256 of each file that is taken of it."""

    name: str
    version: str
    licence: str
    sha256: dict[str, str]


def listed() -> Vendored:
    return msgspec.json.decode(LISTED.read_bytes(), type=Vendored)


def fetch(name: str, version: str) -> dict[str, bytes]:
    """Return the files of a version, by the names that they have here."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
        [packed] = Path(directory).glob("*.tgz")
        with tarfile.open(packed) as package:
            return {here: content(package, there) for there, here in {**TAKEN, **LICENCE}.items()}


def content(package: tarfile.TarFile, path: str) -> bytes:
    found = package.extractfile(path)
    assert found is not None, path
    return found.read()


def hashes(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(found).hexdigest() for name, found in sorted(files.items())}


def main() -> int:
    """Write the files. Return the exit code."""
    before = listed()
    version = sys.argv[1] if len(sys.argv) > 1 else before.version
    files = fetch(before.name, version)
    found = hashes(files)
    if version == before.version and found != before.sha256:
        print(f"{before.name} {version} is not what it was: nothing is written", file=sys.stderr)
        return 1
    for name, each in files.items():
        (VENDOR / name).write_bytes(each)
    now = Vendored(before.name, version, before.licence, found)
    LISTED.write_bytes(msgspec.json.format(msgspec.json.encode(now), indent=2) + b"\n")
    print(f"{now.name} {version}: {', '.join(sorted(files))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
