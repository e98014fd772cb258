"""One worker as a process: `python -m gateway.processes.worker`, told what to be on its stdin."""

import os
import sys

from gateway.app import Gateway, Place
from gateway.processes.assignment import Assignment
from gateway.processes.life import main


def build(assignment: Assignment) -> Gateway:
    """Return the gateway of this worker. Its name is unique to the process: what a dead one left behind is nobody's."""
    place = Place(
        worker=assignment.gateway.worker(assignment.name, os.getpid()),
        redis_url=assignment.redis_url,
        state_dir=assignment.state_dir,
        pepper=assignment.pepper,
        certificate=assignment.edition.certificate,
    )
    return Gateway(assignment.edition.config, place, assignment.edition.number)


if __name__ == "__main__":
    sys.exit(main(build))
