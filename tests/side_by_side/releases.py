"""Which commit stands beside this one, and its code in a directory of its own."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.integration.load.served import Served

ROOT = Path(__file__).parents[2]
MIGRATIONS = "gateway/stores/migrations/versions"
LAYOUT = ("gateway/admission/client.py", "FORMAT = ")
"""Where the version of all that the scripts keep is told."""

FARTHEST = 500


class NoneFits(Exception):  # noqa: N818 - it says how the search ended
    """No earlier commit speaks this one's tables and keys, or there is no history to look at."""


class Chosen(msgspec.Struct, frozen=True):
    """A commit, and why it is not the one that was asked for where it is another."""

    commit: str
    subject: str
    passed_over: str = ""


def git(*words: str) -> str:
    """Return what git says. Raises CalledProcessError."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def chosen(asked: str | None) -> Chosen:
    """Return the commit that was asked for, the last release, or the one before this: or the nearest before it that fits."""
    wanted = asked or _last_release() or "HEAD~1"
    try:
        commits = git("rev-list", "--first-parent", "-n", str(FARTHEST), wanted).split()
    except subprocess.CalledProcessError as error:
        raise NoneFits(f"no commit {wanted} here: {error.stderr.strip()}") from None
    reason = ""
    for commit in commits:
        differs = _difference(commit)
        if not differs:
            return Chosen(commit, git("log", "-1", "--format=%s", commit), reason)
        reason = reason or f"{git('rev-parse', '--short', commit)} {differs}"
    raise NoneFits(f"none of {len(commits)} commits from {wanted} on fits: {reason}")


def extract(commit: str, directory: Path) -> Path:
    """Write a commit's files there."""
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
    return directory


def _last_release() -> str:
    try:
        return git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD~1")
    except subprocess.CalledProcessError:
        return ""


def _difference(commit: str) -> str:
    """Return why a commit cannot share this one's state, empty where it can."""
    tables = {path.name for path in (ROOT / MIGRATIONS).glob("r*.py")}
    theirs = {Path(path).name for path in git("ls-tree", "--name-only", commit, f"{MIGRATIONS}/").split() if "/r" in path}
    if not theirs:
        return "has no revisions of its tables yet"
    if more := theirs - tables:
        return f"has tables that are not here: {', '.join(sorted(more))}"
    file, word = LAYOUT
    ours = _line((ROOT / file).read_text(), word)
    return "" if _line(git("show", f"{commit}:{file}"), word) == ours else "keeps its keys in another layout"


def _line(text: str, word: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(word))


class Release(Served):
    """A gateway of the code in this directory."""

    def __init__(self, name: str, code: Path, settings: Mapping[str, Any], directory: Path) -> None:
        super().__init__(name, settings, directory)
        self._code = code

    def python(self) -> list[str]:
        """Return the interpreter, which is not to look for code where it is started."""
        return [sys.executable, "-P"]

    def environment(self) -> dict[str, str]:
        """Return what has Python find this code first."""
        return {**super().environment(), "PYTHONPATH": str(self._code)}

    def where(self) -> Path:
        """Return where the package comes from that is served."""
        return Path(self._python("-c", "import gateway; print(gateway.__file__)"))

    def migrate(self) -> None:
        """Bring the database to this code's tables."""
        self._python("-m", "gateway", "db", "upgrade", "--config", str(self._config))

    def _python(self, *words: str) -> str:
        done = subprocess.run([*self.python(), *words], env=self.environment(), capture_output=True, text=True, check=True)
        return done.stdout.strip()
