"""The Dockerfile, read as far as it is written: stages of instructions, continued lines joined."""

import re
from collections.abc import Iterator

import msgspec

from tests.deploy.tools import ROOT

PATH = ROOT / "deploy" / "docker" / "Dockerfile"


class Instruction(msgspec.Struct, frozen=True):
    """One instruction: its word in capitals, and the rest."""

    word: str
    rest: str


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in re.sub(r"\\\n\s*", "", lines).splitlines():
        if line:
            word, _, rest = line.partition(" ")
            yield Instruction(word.upper(), rest.strip())


def stages(text: str) -> list[list[Instruction]]:
    """Return the stages, each from its FROM on."""
    found: list[list[Instruction]] = []
    for each in instructions(text):
        if each.word == "FROM":
            found.append([])
        if found:
            found[-1].append(each)
    return found
