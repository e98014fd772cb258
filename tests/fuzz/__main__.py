"""`make fuzz`: look for bytes that break a law of streams, led by what each input reaches. Options are libFuzzer's.

Runs in an environment of its own, for the fuzzer is not among the project's tools. What it finds is written to the working
directory; a find belongs into `tests/fuzz/corpus`, where the unit tests hold it from then on.
"""

import sys

import atheris

with atheris.instrument_imports(include=["gateway"]):
    from tests.fuzz.laws import check


def main() -> None:
    """Fuzz until told to stop, or until something is found."""
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
