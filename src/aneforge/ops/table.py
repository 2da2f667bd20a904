"""The op table: every `Op` that the modules of `groups/` declare, found by looking into them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from aneforge.errors import UnknownNameError
from aneforge.ops import groups
from aneforge.ops.op import Op, Trait

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

__all__ = ["find_op", "names", "ops", "ops_in", "ops_with"]


@cache
def ops() -> Mapping[str, Op]:
    """Return every operation by its name, in the order of names."""
    modules = sorted(module.name for module in pkgutil.iter_modules(groups.__path__))
    return ops_in(importlib.import_module(f"{groups.__name__}.{name}") for name in modules)


def ops_in(modules: Iterable[ModuleType]) -> Mapping[str, Op]:
    """Return the operations that modules declare, by name and in the order of names.

    Raises:
        ValueError: Two operations have one name, an alias of one counted.
    """
    found: dict[str, Op] = {}
    for declared in (value for module in modules for value in vars(module).values()):
        if isinstance(declared, Op) and found.setdefault(declared.name, declared) is not declared:
            raise ValueError(f"two operations are called {declared.name}")
    by_any_name(found.values())
    return dict(sorted(found.items()))


def by_any_name(entries: Iterable[Op]) -> dict[str, Op]:
    """Return operations by their names and aliases.

    Raises:
        ValueError: Two operations have one name, an alias of one counted.
    """
    found: dict[str, Op] = {}
    for entry in entries:
        for name in (entry.name, *entry.aliases):
            if name in found:
                raise ValueError(f"two operations are called {name}")
            found[name] = entry
    return found


@cache
def names() -> Mapping[str, Op]:
    """Return every operation by its name and its aliases."""
    return by_any_name(ops().values())


@cache
def ops_with(trait: Trait) -> frozenset[str]:
    """Return the names of the operations that have a trait.

    >>> sorted(ops_with(Trait.ROUNDING))
    ['ceil', 'floor', 'round']
    """
    return frozenset(name for name, op in ops().items() if trait in op.traits)


def find_op(name: str) -> Op:
    """Return an operation by its name or an alias of it.

    >>> find_op("add").summary, find_op("global_argmax").name
    ('x + y', 'global_arg_min_max')

    Raises:
        UnknownNameError: There is no such operation.
    """
    found = names().get(name)
    if found is None:
        raise UnknownNameError.of("operation", name, names())
    return found
