"""What went wrong inside of the compiler: whose fault it is, and a file with which to see it again."""

from __future__ import annotations

import os
import platform
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aneforge._version import __version__
from aneforge.errors import GraphError, InternalError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Generator

    from aneforge.graph.graph import Graph

__all__ = ["reproducible", "within"]

MOST_CHARACTERS = 1 << 20
"""Of a graph's text that a reproducer holds; a model with 5,000 operations has less."""


@contextmanager
def within(stage: str) -> Generator[None]:
    """Verify what a stage of the compiler made: what it refuses is the model's, any other error is the stage's own.

    Raises:
        InternalError: The stage was given a program and made something else.
    """
    try:
        yield
    except NotSupportedError:
        raise
    except GraphError as error:
        raise InternalError.of(stage, error) from error


@contextmanager
def reproducible(graph: Graph, target: str, route: str) -> Generator[None]:
    """Compile a graph; an internal error leaves with the name of a file that holds the graph and the target."""
    try:
        yield
    except InternalError as error:
        if error.reproducer is None and error.remedy is None:
            attach(error, graph, target, route)
        raise


def attach(error: InternalError, graph: Graph, target: str, route: str) -> None:
    """Write a reproducer and name it in an error; where none can be written, say so."""
    try:
        error.reproducer = write(error, graph, target, route)
    except OSError as refused:
        error.remedy = f"please report it with the model; no reproducer could be written ({refused.strerror})"
    else:
        error.remedy = f"please report it with {error.reproducer}, which holds the graph without its weights"


def write(error: InternalError, graph: Graph, target: str, route: str) -> str:
    """Write a graph as text, with the target and what went wrong, into a new file and return its path."""
    text = str(graph)
    left_out = f"# {len(text) - MOST_CHARACTERS} characters are left out here\n" if len(text) > MOST_CHARACTERS else ""
    head = [
        f"# an internal error of aneforge {__version__}, Python {platform.python_version()}",
        f"# target {target}, route {route}, stage {error.operation}",
        *(f"# {line}" for line in error.message.splitlines()),
    ]
    import tempfile  # noqa: PLC0415 - loaded where a pass fails

    handle, path = tempfile.mkstemp(prefix=f"aneforge-{error.operation}-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("\n".join(head) + f"\n{text[:MOST_CHARACTERS]}\n{left_out}")
    return path
