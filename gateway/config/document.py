"""Bytes to a tree of YAML nodes, each with its line. Nothing is constructed: tags make no objects, words make no values."""

from yaml import MarkedYAMLError, Node, SafeLoader, compose
from yaml.reader import ReaderError

from gateway.config.problems import Problem
from gateway.config.references import shelter


class DocumentError(Exception):
    """A file that is not one YAML document."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(line, "", message)


def line_of(node: Node) -> int:
    """Return the line of the file on which a node begins."""
    return int(node.start_mark.line) + 1


def read(raw: bytes) -> Node:
    """Return the document's root.

    Raises `DocumentError`.
    """
    try:
        text = shelter(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DocumentError(raw.count(b"\n", 0, error.start) + 1, "the file is not UTF-8 text") from None
    except ValueError as error:
        raise DocumentError(1, str(error)) from None
    root = _compose(text)
    if root is None:
        raise DocumentError(1, "the file is empty")
    return root


def _compose(text: str) -> Node | None:
    try:
        return compose(text, Loader=SafeLoader)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(line, f"the file holds the control character U+{error.character:04X}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DocumentError(
            mark.line + 1 if mark else 1, ", ".join(filter(None, ("this is not valid YAML", error.context, error.problem)))
        ) from None
    except RecursionError:
        raise DocumentError(1, "the file is nested too deeply") from None
