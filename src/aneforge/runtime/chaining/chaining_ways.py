"""The ways to bring work to the engine in fewer calls, from `data/chaining.toml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Way", "ways"]


class Way(Entry, frozen=True):
    """A way to bring work to the engine in fewer calls."""

    title: str
    available: bool
    saves: Literal["dispatches", "nothing", "unknown"]
    source: str
    why: str
    on: tuple[str, ...] = ()


class WaysFile(Entry, frozen=True):
    """The data file."""

    ways: dict[str, Way]


@cache
def ways() -> Mapping[str, Way]:
    """Return the ways in the order in which the planner gives them.

    >>> list(ways())
    ['fuse', 'stream', 'chain']
    """
    return read(Path(__file__).parent.parent / "data" / "chaining.toml", WaysFile).ways
