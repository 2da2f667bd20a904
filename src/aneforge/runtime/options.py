"""What a caller asks of `compile`, checked: every option, and which go together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError, NotSupportedError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["COMPRESSIONS", "Level", "Options", "checked_options", "level_of"]

COMPRESSIONS = ("int8", "int4", "sparse", "blockwise", "auto")
RESCALINGS = ("auto",)


class Level(StrEnum):
    """How much is tried to make a graph fast."""

    PLAIN = "plain"
    """Compile what is there."""
    ROUTES = "routes"
    """Leave out what undoes itself; values keep their bits."""
    COST = "cost"
    """Choose among forms of the graph by the cost model."""
    TRIED = "tried"
    """As above, among those alone whose error was tried and found small."""

    @property
    def chooses(self) -> bool:
        """It chooses among forms of the graph, whose bits differ."""
        return self in (Level.COST, Level.TRIED)


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller asks of `compile`, beside graph, target and backend."""

    level: Level
    compress: str | None
    compress_atol: float
    block_size: int
    validate: bool
    strict: bool
    rescale: str | None
    build_dir: Path | None

    @property
    def key(self) -> str:
        """What tells programs apart that were compiled with different options."""
        return f"{self.level} {self.compress} {self.compress_atol!r} {self.block_size} {self.rescale}"


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
        "opt is no level of optimisation",
        seen=repr(cast("object", opt)),
        limit='0, None, False, "routes", 1, 2 or "max"',
    )


def checked_options(  # noqa: PLR0913 - the options of `compile`
    *,
    int8: object,
    opt: object,
    compress: object,
    compress_atol: object,
    block_size: object,
    validate: object,
    strict: object,
    rescale: object,
    build_dir: Path | None,
) -> Options:
    """Return the options of a compile.

    Raises:
        GraphError: One has a value that there is not.
        GraphTypeError: One is of another type.
        NotSupportedError: Two do not go together.
    """
    level = level_of(opt)
    mode = compression(flag(int8, "int8"), compress)
    if mode is not None and level.chooses:
        raise NotSupportedError(
            f"compress={mode!r} does not go together with opt={opt!r}, which chooses the form of the weights itself",
            remedy='leave one of them out, or use opt="routes"',
        )
    if rescale is not None and rescale not in RESCALINGS:
        raise UnknownNameError.of("way of rescaling", rescale, RESCALINGS)
    return Options(
        level=level,
        compress=mode,
        compress_atol=tolerance(compress_atol),
        block_size=extent(block_size),
        validate=flag(validate, "validate"),
        strict=flag(strict, "strict"),
        rescale=rescale if rescale is None else str(rescale),
        build_dir=build_dir,
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
        raise GraphTypeError(f"{name} is neither True nor False", seen=repr(value))
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
        raise GraphError("compress_atol is no tolerance", seen=found, limit="0 or more")
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
