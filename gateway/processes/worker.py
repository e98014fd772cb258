"""One worker as a process: `python -m gateway.processes.worker`, told what to be on its stdin."""

import os
import sys

from gateway.app import Gateway, Place
from gateway.config import ConfigErrors, load
from gateway.processes.assignment import Assignment
from gateway.processes.life import main

EXIT_CONFIG = 78


def build(assignment: Assignment) -> Gateway:
    """Return the gateway of this worker. Its name is unique to the process: what a dead one left behind is nobody's."""
    place = Place(
        worker=f"{assignment.name}-{os.getpid()}",
        redis_url=assignment.redis_url,
        state_dir=assignment.state_dir,
        pepper=assignment.pepper,
    )
    return Gateway(load(assignment.config_path, assignment.environ).config, place)


def run() -> int:
    """Live one worker's life. Return its exit code: 78 where the file has become unusable since the supervisor read it."""
    try:
        return main(build)
    except ConfigErrors as errors:
        sys.stderr.writelines(f"{line}\n" for line in errors.lines)
        return EXIT_CONFIG


if __name__ == "__main__":
    sys.exit(run())
