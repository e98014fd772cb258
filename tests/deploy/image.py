"""`python -m tests.deploy.image`: each step of the Dockerfile as it is written, and the gateway that comes of them.

There need not be a container engine: the steps run below a root of their own (`root.py`), as the image's user, with nothing
writable but what a step is for; the base image is this machine's system and Python. Then the gateway of the dev overlay is
started by the image's ENTRYPOINT and CMD, below a root that is read-only but for its volumes, asked whether it is ready, and
told to leave. Needs a package registry. Exits 1 where a step fails.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import httpx
import msgspec
import yaml

from tests.deploy.dockerfile import PATH, Instruction, stages
from tests.deploy.manifests import K8S, SECRETS, for_trying
from tests.deploy.root import PATH as BASE
from tests.deploy.root import USER, Root
from tests.deploy.tools import ROOT

VOLUMES = ("/tmp", "/var/lib/tiergate")
FREE = {"host": "127.0.0.1", "port": 0}
READY_S = 30.0
LEAVING_S = 30.0
"""Much more than `shutdown.delay`: nobody asks it anything."""


class StepError(Exception):
    """A step that failed, with what it said."""


def variables(stage: Sequence[Instruction], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a stage's steps."""
    found = dict(environ)
    for each in stage:
        if each.word == "ENV":
            for word in each.rest.split():
                name, _, value = word.partition("=")
                found[name] = value.replace("$PATH", found["PATH"])
    return found


def copy(root: Root, rest: str, folder: str) -> None:
    """Do what a COPY of the first stage says."""
    *sources, target = rest.split()
    for source in sources:
        to = root.place / folder.removeprefix("/") / (target if target.endswith("/") else "")
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, to / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, to)
    root.own(folder)


def run(root: Root, rest: str, environ: Mapping[str, str], folder: str, writable: Sequence[str]) -> None:
    """Do what a RUN says. Raises StepError."""
    began_s = time.monotonic()
    process = root.start(["sh", "-c", f"cd {folder} && {rest}"], environ, writable)
    said, _ = process.communicate()
    if process.returncode:
        raise StepError(f"RUN {rest}\n{said}")
    print(f"{time.monotonic() - began_s:5.1f} s  RUN {rest}")


def steps(root: Root, stage: Sequence[Instruction], environ: Mapping[str, str], writable: Sequence[str]) -> dict[str, str]:
    """Do one stage. Return its environment."""
    folder, found = "/", variables(stage, environ)
    for each in stage:
        if each.word == "WORKDIR":
            folder = each.rest
            root.own(folder)
        elif each.word == "COPY" and not each.rest.startswith("--from=build"):
            copy(root, each.rest, folder)
        elif each.word == "RUN":
            run(root, each.rest, found, folder, writable)
    return found


def configure(root: Root) -> None:
    """Put the dev overlay's configuration and secrets where its pod has them, on free ports."""
    config = yaml.safe_load((K8S / "base" / "gateway.yaml").read_text())
    config |= {"api": FREE, "ops": {**FREE, "admin_token": f"${{file:{SECRETS}admin-token}}"}}
    secrets, place = root.place / SECRETS.strip("/"), root.place / "etc" / "tiergate"
    secrets.mkdir(parents=True)
    place.mkdir()
    (place / "gateway.yaml").write_text(yaml.safe_dump(config))
    for name, value in for_trying().items():
        (secrets / name).write_text(value)


def serve(root: Root, stage: Sequence[Instruction], environ: Mapping[str, str]) -> None:
    """Start what the image starts, wait until it is ready, and tell it to leave. Raises StepError."""
    words = {each.word: each.rest for each in stage}
    command = [*msgspec.json.decode(words["ENTRYPOINT"]), *msgspec.json.decode(words["CMD"])]
    began_s = time.monotonic()
    process = root.start(["sh", "-c", f"cd {words['WORKDIR']} && exec {' '.join(command)}"], environ, VOLUMES)
    try:
        wait_ready(f"http://{operations(process.stdout)}/readyz")
        print(f"{time.monotonic() - began_s:5.1f} s  {' '.join(command)}: ready, as user {USER}, its root read-only")
        os.kill(innermost(process.pid), signal.SIGTERM)
        if code := process.wait(LEAVING_S):
            raise StepError(f"{command} ended with {code}")
        print(f"{time.monotonic() - began_s:5.1f} s  told to leave: gone, exit code 0")
    finally:
        process.kill()


def operations(lines: Iterable[str] | None) -> str:
    """Return where a gateway that starts says that its operations port is. Raises StepError."""
    said = []
    for line in lines or ():
        said.append(line)
        if '"event":"started"' in line:
            return str(msgspec.json.decode(line)["ops"]).removeprefix("http://")
    raise StepError("".join(said))


def wait_ready(url: str) -> None:
    """Return when a gateway says that it is ready. Raises StepError."""
    until_s = time.monotonic() + READY_S
    while httpx.get(url, trust_env=False, timeout=5.0).status_code != 200:
        if time.monotonic() > until_s:
            raise StepError(f"{url}: not ready in {READY_S:.0f} s")
        time.sleep(0.1)


def innermost(pid: int) -> int:
    """Return the process that `unshare` has forked: the first one inside."""
    [child, *_] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def image(place: Path) -> None:
    """Make the image's file system below `place`, and start what it starts. Raises StepError."""
    build, final = stages(PATH.read_text())
    root = Root(place)
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_") and "/opt/" not in value}
    (place / "opt").mkdir()
    root.own("/opt", "/build", *VOLUMES)
    base = {"PATH": BASE, "HOME": "/nonexistent", **pip}
    steps(root, build, base, ("/build", "/opt", "/tmp"))
    shutil.rmtree(place / "build")
    environ = steps(root, final, {"PATH": BASE}, VOLUMES)
    configure(root)
    serve(root, final, environ)


def main() -> int:
    """Do every step. Return the exit code."""
    with tempfile.TemporaryDirectory(prefix="tiergate-image-") as directory:
        place = Path(directory) / "root"
        place.mkdir()
        Path(directory).chmod(0o755)
        try:
            image(place)
        except StepError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
