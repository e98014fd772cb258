"""Become another program that dies with its parent: `python -m gateway.embedded.launch PARENT_PID PROGRAM ARGUMENT…`.

The death signal survives exec, so a program that knows nothing of it can be tied from here. A hook between fork and exec in
the parent would do the same and may deadlock there, because the parent has threads.
"""

import os
import sys

from gateway.embedded.lifeline import die_with


def main(arguments: list[str]) -> None:
    """Tie this process to its parent, then replace it by the program."""
    parent_pid, program, *rest = arguments
    die_with(int(parent_pid))
    os.execv(program, [program, *rest])  # noqa: S606 - the program is the one the parent named, and no shell reads it


if __name__ == "__main__":
    main(sys.argv[1:])
