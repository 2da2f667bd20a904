"""Operators as PyTorch describes them: the space, name and form of one, and the arguments of its schema.

PyTorch has no public name for these; what is private of it is used only here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

from torch import _ops  # pyright: ignore[reportPrivateUsage] - the classes of operators have no public name

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.torch.torch_values import Held

__all__ = ["Schema", "operator_name", "runs_graphs", "schema_of"]


class SchemaArgument(Protocol):
    """An argument of a schema, as PyTorch has it."""

    name: str
    default_value: object

    def has_default_value(self) -> bool:
        """Return whether it may be left out."""
        ...


class OperatorSchema(Protocol):
    """A schema, as PyTorch has it."""

    name: str
    overload_name: str
    arguments: Sequence[SchemaArgument]


@dataclass(frozen=True, slots=True)
class Schema:
    """How an operator is called."""

    space: str
    name: str
    form: str
    arguments: tuple[str, ...]
    defaults: tuple[tuple[str, Held], ...]


def schema_of(target: object) -> Schema | None:
    """Return the schema of an operator; nothing for what is none.

    >>> import torch
    >>> found = schema_of(torch.ops.aten.relu.default)
    >>> found.space, found.name, found.form, found.arguments
    ('aten', 'relu', 'default', ('self',))
    """
    return describe(target) if is_operator(target) else None


def is_operator(target: object) -> bool:
    """Return whether something is one form of an operator."""
    return isinstance(target, _ops.OpOverload)


@lru_cache(4096)
def describe(target: object) -> Schema:
    """Return the schema of an operator."""
    schema = cast("OperatorSchema", getattr(target, "_schema"))  # noqa: B009 - it has no public name
    space, _, name = schema.name.partition("::")
    return Schema(
        space,
        name,
        schema.overload_name or "default",
        tuple(one.name for one in schema.arguments),
        tuple((one.name, plain(one.default_value)) for one in schema.arguments if one.has_default_value()),
    )


def plain(value: object) -> Held:
    """Return a schema's default as a plain value."""
    if isinstance(value, list | tuple):
        return tuple(plain(one) for one in cast("list[object]", value))
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def runs_graphs(target: object) -> bool:
    """Return whether an operator runs graphs that are its arguments."""
    return isinstance(target, _ops.HigherOrderOperator)


def operator_name(target: object) -> str:
    """Return how a finding names an operator: ATen's without its space, others with theirs.

    >>> import torch
    >>> operator_name(torch.ops.aten.add.Tensor), operator_name(torch.ops.higher_order.cond)
    ('add.Tensor', 'cond')
    """
    if is_operator(target):
        return str(target).removeprefix("aten.")
    return str(cast("object", getattr(target, "_name", None) or getattr(target, "__name__", None) or target))
