"""The options of `compile`, written once: names, order, types and defaults; their checks, and which go together.

Every function with these options (`compile`, `compile_multi`) takes its signature from `Options` through `takes`, and
the key of the program cache is made of its fields.
"""

from __future__ import annotations

import inspect
import math
import os
from dataclasses import KW_ONLY, fields, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError, NotSupportedError, UnknownNameError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.runtime.backends import Backend
    from aneforge.targets import TargetLike

__all__ = [
    "COMPRESSIONS",
    "OF_NO_PROGRAM",
    "OPTION_NAMES",
    "Level",
    "Options",
    "PathLike",
    "check_options",
    "level_of",
    "takes",
]

COMPRESSIONS = ("int8", "int4", "sparse", "blockwise", "auto")
RESCALINGS = ("auto",)
PathLike = str | os.PathLike[str]
P = ParamSpec("P")
R = TypeVar("R")
G = TypeVar("G")
"""What a function takes for a graph."""


class Level(StrEnum):
    """How much is tried to make a graph fast."""

    PLAIN = "plain"
    """Compile what is there."""
    ROUTES = "routes"
    """Leave out what undoes itself; values keep their bits."""
    COST = "cost"
    """Choose among forms of the graph by the cost model."""
    TRIED = "tried"
    """As above, only among those whose error was tried and found small."""

    @property
    def chooses(self) -> bool:
        """It chooses among forms of the graph, whose bits differ."""
        return self in (Level.COST, Level.TRIED)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `compile`, in the order of its signature; what they do is said there."""

    int8: bool = False
    build_dir: PathLike | None = None
    opt: str | int | bool | None = "routes"
    compress: str | None = None
    compress_atol: float = 0.05
    block_size: int = 32
    validate: bool = False
    target: TargetLike = None
    _: KW_ONLY
    strict: bool = False
    rescale: str | None = None
    backend: str | Backend | None = None

    @property
    def level(self) -> Level:
        """How much is tried to make a graph fast."""
        return level_of(self.opt)

    @property
    def folder(self) -> Path | None:
        """Where artifacts are kept."""
        return None if self.build_dir is None else Path(self.build_dir)

    @property
    def key(self) -> str:
        """What distinguishes programs that were compiled with different options, the target aside.

        >>> Options(opt=2).key == Options(opt="max").key, Options().key == Options(compress="int8").key
        (True, False)
        """
        settings = {name: getattr(self, name) for name in OPTION_NAMES if name not in OF_NO_PROGRAM}
        return repr(settings | {"opt": str(self.level)})


OPTION_NAMES = tuple(field.name for field in fields(Options))
OF_NO_PROGRAM = {"build_dir", "validate", "target", "strict", "backend"}
"""Options that change no program, and the target, which is a part of the key by itself. All others are in the key."""


def level_of(opt: object) -> Level:
    """Return how much is to be tried.

    >>> level_of(0), level_of("max")
    (<Level.PLAIN: 'plain'>, <Level.TRIED: 'tried'>)

    Raises:
        GraphError: There is no such level.
    """
    level = int(cast("int", opt)) if isinstance(opt, np.integer) else opt
    match level:
        case None | False:
            return Level.PLAIN
        case True:
            pass
        case int() if level in (0, 1, 2):
            return (Level.PLAIN, Level.COST, Level.TRIED)[level]
        case "routes":
            return Level.ROUTES
        case "max":
            return Level.TRIED
        case _:
            pass
    raise GraphError(
        f"unknown level of opt: expected 0, None, False, 'routes', 1, 2 or 'max', got {cast('object', opt)!r}"
    )


def takes(
    options: Callable[P, Options],
) -> Callable[[Callable[[G, Options], R]], Callable[Concatenate[G, P], R]]:
    """Return a decorator: the function is called with a graph and options one by one, and is given them checked.

    >>> @takes(Options)
    ... def blocks(out, options):
    ...     return options.block_size
    >>> blocks(None, block_size=16), list(inspect.signature(blocks).parameters)[:3]
    (16, ['out', 'int8', 'build_dir'])
    """
    listed = inspect.signature(options).parameters.values()

    def decorate(function: Callable[[G, Options], R]) -> Callable[Concatenate[G, P], R]:
        written = inspect.signature(function)
        graph = next(iter(written.parameters.values()))
        signature = written.replace(parameters=[graph, *listed])

        @wraps(function)
        def call(*given: object, **named: object) -> R:
            try:
                arguments = signature.bind(*given, **named).arguments
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            asked = {name: value for name, value in arguments.items() if name != graph.name}
            return function(cast("G", arguments[graph.name]), check_options(Options(**asked)))

        vars(call)["__signature__"] = signature
        return cast("Callable[Concatenate[G, P], R]", call)

    return decorate


def check_options(asked: Options) -> Options:
    """Return options of which every one has a value that there is; `int8` is turned into the way of compressing.

    Raises:
        GraphError: One has a value that there is not.
        GraphTypeError: An option has the wrong type.
        NotSupportedError: Two do not go together.
    """
    level = asked.level
    mode = compression(flag(asked.int8, "int8"), asked.compress)
    if mode is not None and level.chooses:
        raise NotSupportedError(
            f"compress={mode!r} does not go together with opt={asked.opt!r}, which chooses the form of the weights "
            f"itself",
            remedy='leave one of them out, or use opt="routes"',
        )
    if asked.rescale is not None and asked.rescale not in RESCALINGS:
        raise UnknownNameError.of("way of rescaling", asked.rescale, RESCALINGS)
    return replace(
        asked,
        int8=False,
        build_dir=folder_of(asked.build_dir),
        compress=mode,
        compress_atol=tolerance(asked.compress_atol),
        block_size=extent(asked.block_size),
        validate=flag(asked.validate, "validate"),
        strict=flag(asked.strict, "strict"),
    )


def compression(int8: bool, compress: object) -> str | None:  # noqa: FBT001 - the documented option
    """Return the way of compressing weights; `int8` is an older name of one of them.

    Raises:
        UnknownNameError: There is no such way.
        GraphError: Two are asked for.
    """
    if compress is not None and (not isinstance(compress, str) or compress not in COMPRESSIONS):
        raise UnknownNameError.of("way of compressing", compress, COMPRESSIONS)
    if int8 and compress not in (None, "int8"):
        raise GraphError('int8=True means compress="int8"', seen=f"compress={compress!r}", remedy="leave int8 out")
    return "int8" if int8 else compress


def flag(value: object, name: str) -> bool:
    """Return an option that is yes or no.

    Raises:
        GraphTypeError: It is something else.
    """
    if not isinstance(value, bool | np.bool_):
        raise GraphTypeError(f"{name} must be True or False", seen=repr(value))
    return bool(cast("bool", value))


def tolerance(value: object) -> float:
    """Return the error up to which an encoding of a weight is accepted.

    Raises:
        GraphTypeError: It is not a number.
        GraphError: It is negative, or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise GraphTypeError("compress_atol is not a number", seen=repr(value))
    found = float(cast("float", value))
    if math.isnan(found) or found < 0:
        raise GraphError("compress_atol must be 0 or more", seen=found, limit="0 or more")
    return found


def extent(value: object) -> int:
    """Return the number of columns in a block of weights.

    Raises:
        GraphTypeError: It is not an integer.
        GraphError: It is less than one.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise GraphTypeError("block_size is not an integer", seen=repr(value))
    found = int(cast("int", value))
    if found < 1:
        raise GraphError("block_size is not a number of columns", seen=found, limit="1 or more")
    return found


def folder_of(build_dir: PathLike | None) -> Path | None:
    """Return the folder for artifacts.

    Raises:
        GraphTypeError: It is not a path.
    """
    if build_dir is None:
        return None
    if not isinstance(build_dir, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError("build_dir is not a path", seen=type(build_dir).__name__)
    return Path(build_dir)
