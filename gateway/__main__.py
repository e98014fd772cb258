"""The `tiergate` command; the only reader of the process's environment."""

import os

from gateway.cli import tiergate


def main() -> None:
    """Run the command line."""
    tiergate(obj=dict(os.environ))


if __name__ == "__main__":
    main()
