"""Which function converts which of ATen's operators.

The modules of `operators/` register their converters here, by the operator's name and, where its forms differ in more
than the types of their arguments, by the name of one form (`max.dim`). A converter gets a `Call` and returns the node's
results: one value, or several in order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from aneforge.formats.shared.interpretation import import_modules
from aneforge.formats.torch import operators

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.formats.torch.torch_values import Held

__all__ = ["Converter", "complex_converter_of", "complex_operator", "converter_of", "converters", "operator"]

Converter = Callable[["Call"], "Held"]
CONVERTERS: dict[str, Converter] = {}
COMPLEX_CONVERTERS: dict[str, Converter] = {}
"""Converters of nodes that read or give complex numbers."""


def operator(*names: str) -> Callable[[Converter], Converter]:
    """Register a function as the converter of operators."""
    return registering(CONVERTERS, names)


def complex_operator(*names: str) -> Callable[[Converter], Converter]:
    """Register a function as the converter of operators where they read or give complex numbers."""
    return registering(COMPLEX_CONVERTERS, names)


def registering(table: dict[str, Converter], names: tuple[str, ...]) -> Callable[[Converter], Converter]:
    """Return what puts a function into a table."""

    def register(convert: Converter) -> Converter:
        for name in names:
            if name in table:
                raise ValueError(f"{name} has two converters")
            table[name] = convert
        return convert

    return register


@cache
def converters() -> dict[str, Converter]:
    """Return every converter by operator; the modules of the operators are imported once, when asked."""
    import_modules(operators)
    return CONVERTERS


def converter_of(name: str, form: str) -> Converter | None:
    """Return the converter of a form of an operator, or nothing.

    >>> converter_of("relu", "default") is not None, converter_of("svd", "default")
    (True, None)
    """
    found = converters()
    return found.get(f"{name}.{form}") or found.get(name)


def complex_converter_of(name: str) -> Converter | None:
    """Return the converter of an operator where it reads or gives complex numbers, or nothing.

    >>> complex_converter_of("mul") is not None, complex_converter_of("relu")
    (True, None)
    """
    converters()
    return COMPLEX_CONVERTERS.get(name)
