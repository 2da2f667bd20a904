"""Which function converts which operator, and for which versions of its operator set.

The modules of `operators/` register their converters here. A converter gets a `Call` and returns the node's results:
one value, or several in order.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from aneforge.formats.onnx import operators
from aneforge.formats.shared.interpretation import import_modules
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held

__all__ = ["Converter", "Entry", "converter_of", "converters", "operator"]

Converter = Callable[["Call"], "Held | tuple[Held, ...]"]
NEWEST = 1_000_000
"""More than the versions of any operator set."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A converter and the forms of its operator that it takes, by the version that brought them."""

    convert: Converter
    since: int
    until: int
    takes_all: bool
    """It takes texts, sequences, optionals and foreign element types too, and says itself which it cannot."""


ENTRIES: dict[tuple[str, str], list[Entry]] = {}
"""All forms of one operator are registered by one module."""
FIRST = (
    "onnx_elementwise", "onnx_arithmetic", "onnx_shaping", "onnx_convolution", "onnx_pooling", "onnx_products",
    "onnx_normalisation", "onnx_reduction",
)  # fmt: skip
"""Modules whose operators nearly every network has."""


def operator(
    *names: str, domain: str = "", since: int = 1, until: int = NEWEST, takes_all: bool = False
) -> Callable[[Converter], Converter]:
    """Register a function as the converter of operators, for the forms that versions `since` to `until` brought."""

    def register(convert: Converter) -> Converter:
        for name in names:
            ENTRIES.setdefault((domain, name), []).append(Entry(convert, since, until, takes_all))
        return convert

    return register


@cache
def converters() -> dict[tuple[str, str], list[Entry]]:
    """Return every converter by domain and operator; the modules of the operators are imported once, when asked."""
    import_modules(operators)
    return ENTRIES


def converter_of(domain: str, name: str, since: int) -> Entry | None:
    """Return the converter of a form of an operator, or nothing; modules are imported until one has the operator."""
    for module in module_names():
        if (domain, name) in ENTRIES:
            break
        importlib.import_module(f"{operators.__name__}.{module}")
    return next((one for one in ENTRIES.get((domain, name), ()) if one.since <= since <= one.until), None)


@cache
def module_names() -> tuple[str, ...]:
    """Return the modules of the operators, those that most networks need first."""
    every = [module.name for module in pkgutil.iter_modules(operators.__path__)]
    return (*FIRST, *(name for name in every if name not in FIRST))
