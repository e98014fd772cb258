"""A worker process with the fake gateway in it."""

import sys

from gateway.processes.life import main
from tests.fakes.gateway import FakeGateway

if __name__ == "__main__":
    sys.exit(main(FakeGateway))
