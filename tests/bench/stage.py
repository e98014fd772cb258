"""What a run needs: the mock upstream, and before it a relay, a pipe and the gateway as it is served. Durations are seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import httpx
import msgspec

from tests.bench.loads import KEY, MODEL
from tests.bench.processes import Child, Machine, cpu_s, move, program, tree
from tests.bench.store import Store

READY_S = 30.0
LOOK_S = 0.02

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """Something to measure."""

    name: str
    port: int
    pid: int
    store: Store | None = None
    store_pid: int | None = None

    def cpu_s(self) -> float:
        """Return the CPU time that its processes have had, the store apart."""
        return cpu_s([pid for pid in tree(self.pid) if pid != self.store_pid])

    def store_cpu_s(self) -> float:
        """Return the CPU time that its store has had."""
        return 0.0 if self.store_pid is None else cpu_s([self.store_pid])

    async def rest(self) -> None:
        """Wait until all that its requests caused is done."""
        if self.store is not None:
            await self.store.rest()


class Started(msgspec.Struct):
    """The line that the gateway prints when it listens."""

    api: str
    ops: str


@dataclass(frozen=True)
class Stage:
    """All that runs."""

    targets: tuple[Target, ...]
    mock_pid: int

    def cpu_s(self) -> float:
        """Return the CPU time that the run has had, this process included."""
        everything = (self.mock_pid, *(target.pid for target in self.targets))
        return time.process_time() + cpu_s([pid for root in everything for pid in tree(root)])


@contextmanager
def staged(machine: Machine) -> Iterator[Stage]:
    """Start everything, and end it with the block."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="tgb")))
        mock = stack.enter_context(Child(machine.rest, ["tests.bench.mock"]))
        mock_port = int(mock.line())
        floors = [floor(stack, machine, name, mock_port) for name in ("relay", "pipe")]
        log = directory / "log"
        gateway = stack.enter_context(gateway_child(machine, directory, mock_port, log))
        yield Stage((*floors, ready(gateway, machine, directory, log)), mock.pid)


def floor(stack: ExitStack, machine: Machine, name: str, mock_port: int) -> Target:
    """Start one of the programs that do nothing but pass on."""
    child = stack.enter_context(Child(machine.under_test, [f"tests.bench.{name}", str(mock_port)]))
    return Target(name, int(child.line()), child.pid)


def gateway_child(machine: Machine, directory: Path, mock_port: int, log: Path) -> Child:
    """Start the gateway; all that it writes is in the directory."""
    config = directory / "gateway.yaml"
    config.write_bytes(msgspec.json.encode(settings(directory / "state", mock_port)))
    command = ["gateway", "serve", "--config", str(config)]
    with log.open("wb") as output:
        return Child(machine.under_test, command, output=output.fileno(), TMPDIR=str(directory))


def ready(gateway: Child, machine: Machine, directory: Path, log: Path) -> Target:
    """Return the gateway once it is ready, its store moved to the core of all that is not under test."""
    started = wait_for(lambda: start_in(log.read_bytes()), log)
    with httpx.Client(trust_env=False) as client:
        wait_for(lambda: client.get(f"http://{started.ops}/readyz").is_success, log)
    [valkey] = [pid for pid in tree(gateway.pid) if "valkey" in program(pid)]
    [socket_path] = directory.glob("*/valkey.sock")
    move(valkey, machine.rest)
    return Target("tiergate", int(started.api.rpartition(":")[2]), gateway.pid, Store(str(socket_path)), valkey)


def start_in(said: bytes) -> Started | None:
    """Return the line that tells of the gateway's start, None while there is none."""
    lines = (line for line in said.splitlines() if b'"started"' in line)
    return next((msgspec.json.decode(line, type=Started) for line in lines), None)


def wait_for(condition: Callable[[], T | None], log: Path) -> T:
    """Return the first true value of a condition. Raises TimeoutError, with all that the gateway said, where there is none."""
    give_up_s = time.monotonic() + READY_S
    while not (value := condition()):
        if time.monotonic() > give_up_s:
            raise TimeoutError(log.read_text())
        time.sleep(LOOK_S)
    return value


def settings(state_dir: Path, mock_port: int) -> dict[str, Any]:
    """Return a configuration in which everything that a request meets is on, and no limit can refuse it."""
    deployments = [{"provider": "mock", "model": f"upstream-{number}", "max_concurrency": 100_000} for number in (1, 2)]
    return {
        "api": {"host": "127.0.0.1", "port": 0},
        "ops": {"host": "127.0.0.1", "port": 0},
        "workers": 1,
        "database": {"url": f"sqlite:///{state_dir / 'tiergate.db'}"},
        "state_dir": str(state_dir),
        "shutdown": {"delay": "0s"},
        "providers": {
            "mock": {
                "dialect": "openai",
                "base_url": f"http://127.0.0.1:{mock_port}/v1",
                "api_key": "sk-upstream",
                "tiers": {"default": "default"},
                "endpoints": ["chat"],
                "allow_http": True,
            }
        },
        "models": {
            MODEL: {
                "context_window": 128_000,
                "max_output_tokens": 16_384,
                "deployments": deployments,
                "price": {"input": 0.15, "output": 0.60},
            }
        },
        "plans": {
            "bench": {
                "limits": {"rpm": 1_000_000_000, "tpm": 10_000_000_000, "concurrency": 1_000_000},
                "tiers": ["default"],
                "models": ["*"],
            }
        },
        "orgs": {"bench": {"plan": "bench"}},
        "keys": [{"name": "bench", "org": "bench", "plan": "bench", "secret": KEY}],
        "telemetry": {"log": "json"},
    }
