"""A root directory as a container has one, of what this machine has: read-only but for what is named, for a user without a name.

The system and its Python are bound in, the rest is empty. Needs the right to mount (root, or a user namespace).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

USER = 65532
KEPT = ("hosts", "resolv.conf", "nsswitch.conf", "ld.so.cache", "pip.conf", "ca-certificates.conf")
"""Of /etc, as files."""

ENTER = """
set -eu
root=$1; shift
mount --bind "$root" "$root"
mount --rbind /usr "$root/usr"
if [ "$PYTHON_HOME" != /usr ]; then mount --bind "$PYTHON_HOME" "$root$PYTHON_HOME"; fi
mount --bind /etc/ssl "$root/etc/ssl"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
for folder in $WRITABLE; do mount --bind "$root$folder" "$root$folder"; done
mount -o remount,bind,ro "$root"
for folder in /usr "$PYTHON_HOME"; do mount -o remount,bind,ro "$root$folder"; done
exec chroot "$root" setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups --no-new-privs \
    --inh-caps=-all --bounding-set=-all env -i $VARIABLES "$@"
"""


PATH = "/python:/usr/bin:/usr/sbin:/bin:/sbin"
"""Where commands are; `python` is in a folder of its own, since systems differ in what they call it."""


class Root:
    """A root directory below `place`, which is empty."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("usr", "proc", "dev", "etc/ssl", "python", sys.base_prefix.strip("/")):
            (place / name).mkdir(parents=True, exist_ok=True)
        (place / "python" / "python").symlink_to(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path("/", name).is_symlink():
                (place / name).symlink_to(f"usr/{name}")
        for name in KEPT:
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), place / "etc" / name)
        place.chmod(0o755)

    def own(self, *folders: str) -> None:
        """Make folders that are the user's."""
        for folder in folders:
            path = self.place / folder.removeprefix("/")
            path.mkdir(parents=True, exist_ok=True)
            for each in (path, *path.rglob("*")):
                os.chown(each, USER, USER, follow_symlinks=False)

    def start(self, command: Sequence[str], environ: Mapping[str, str], writable: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command here, with this environment alone; only these folders can be written to."""
        assert not any(" " in word for word in environ.values())
        outside = {
            "PATH": os.environ["PATH"],
            "PYTHON_HOME": sys.base_prefix,
            "WRITABLE": " ".join(writable),
            "USER_ID": str(USER),
            "VARIABLES": " ".join(f"{name}={value}" for name, value in environ.items()),
        }
        entering = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        return subprocess.Popen(
            [*entering, "sh", "-c", ENTER, "sh", str(self.place), *command],
            env=outside,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
