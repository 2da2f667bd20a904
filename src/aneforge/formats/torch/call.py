"""One node of a program as its converter sees it: arguments by the names of ATen's schema, and the emitter for it.

The types of the results are PyTorch's own, from the tensors without data with which it traced the program; so a
converter does not repeat PyTorch's rules for mixed element types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from aneforge.errors import GraphError
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.operands import Operands
from aneforge.formats.torch.dtypes import COMPLEX_TYPES, TORCH_TYPES, element_type
from aneforge.formats.torch.torch_values import Complex, is_number, is_value
from aneforge.ops.shapes import normalise_axis
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.torch_values import Held, Number
    from aneforge.graph.node import Output, Value

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call(Operands[str]):
    """One node."""

    operator: str
    form: str
    arguments: Mapping[str, Held]
    """All arguments of the schema, defaults filled in."""
    result_types: tuple[torch.dtype | None, ...]
    """The element types of the results; None for a result that is not a tensor."""
    result_shapes: tuple[tuple[int, ...] | None, ...]
    """The shapes of the results as far as they are plain numbers."""
    emit: Emitter

    @property
    def is_complex(self) -> bool:
        """Whether it reads or gives complex numbers."""
        given = any(isinstance(one, Complex) for held in self.arguments.values() for one in as_list(held))
        return given or any(str(one) in COMPLEX_TYPES for one in self.result_types)

    # Tensors.

    def has(self, name: str) -> bool:
        """Return whether an argument is given, and not as None."""
        return self.arguments.get(name) is not None

    def held_at(self, key: str) -> Held:
        """Return an argument of any kind; None where it is left out."""
        return self.arguments.get(key)

    def describe_key(self, key: str) -> str:
        """Return how a message names an argument."""
        return f"argument {key!r}"

    def no_tensor(self, key: str, held: object) -> GraphError:
        """Return the error of an argument that is not a tensor."""
        return GraphError(f"argument {key!r} is not a tensor", seen=type(held).__name__)

    def computed(self, value: Output, message: str) -> GraphError:  # noqa: ARG002 - PyTorch fixes no inputs
        """Return the error of a value that would have to be known."""
        workaround = "make it a constant of the module, or end the program before it"
        return UnsupportedNodeError(Reason.DATA_SHAPE, message, workaround=workaround)

    def values(self, name: str) -> list[Value]:
        """Return a list of tensors.

        Raises:
            GraphError: One of them is something else.
        """
        found = self.arguments.get(name)
        listed = found if isinstance(found, tuple) else ()
        if not all(is_value(one) for one in listed):
            raise GraphError(f"argument {name!r} is not a list of tensors")
        return cast("list[Value]", list(listed))

    def operand(self, name: str, dtype: str) -> Value:
        """Return a tensor, or a number as one, in an element type."""
        found = self.arguments.get(name)
        if is_number(found):
            return self.emit.constant(found, dtype)
        return self.emit.cast(self.value(name), dtype)

    # Numbers.

    def number(self, name: str) -> Number:
        """Return a number that must be there.

        Raises:
            UnsupportedNodeError: It is computed at run time.
        """
        found = self.arguments.get(name)
        if isinstance(found, bool | int | float):
            return found
        raise UnsupportedNodeError(
            Reason.DATA_SHAPE,
            f"argument {name!r} is not a number that is known",
            workaround="make it a constant of the module",
        )

    def integer(self, name: str) -> int:
        """Return an integer."""
        return int(self.number(name))

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return bool(self.number(name))

    def text(self, name: str) -> str:
        """Return a text; an empty one where it is left out."""
        found = self.arguments.get(name)
        return found if isinstance(found, str) else ""

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return a list of integers; None where it is left out. One number stands for a list of it.

        Raises:
            UnsupportedNodeError: One of them is computed at run time.
        """
        found = self.arguments.get(name)
        if found is None:
            return None
        listed: Sequence[Held] = found if isinstance(found, tuple) else (found,)
        if not all(is_number(one) for one in listed):
            raise UnsupportedNodeError(Reason.DATA_SHAPE, f"argument {name!r} has values that are computed")
        return tuple(int(cast("Number", one)) for one in listed)

    def per_axis(self, name: str, count: int, default: int = 1) -> tuple[int, ...]:
        """Return one integer for each spatial axis; one stands for all, and none for the default.

        Raises:
            GraphError: There are more or fewer.
        """
        found = self.integers(name) or (default,)
        if len(found) == 1:
            return found * count
        if len(found) != count:
            raise GraphError(f"argument {name!r} must have one number for each axis", seen=list(found), limit=count)
        return found

    def axis(self, name: str, rank: int) -> int:
        """Return an axis counted from the front; a tensor without axes has one of length 1, as PyTorch has it."""
        return normalise_axis(self.integer(name), max(rank, 1), name)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Return axes counted from the front; none, or an empty list, are all, and a tensor without axes has none."""
        found = self.integers(name)
        if not found:
            return tuple(range(rank))
        listed = dict.fromkeys(normalise_axis(one, max(rank, 1), name) for one in found)
        return tuple(listed) if rank else ()

    # Element types.

    def dtype(self, place: int = 0) -> str:
        """Return the element type of a result.

        Raises:
            GraphError: The result is not a tensor.
            UnsupportedNodeError: The element type has no meaning here.
        """
        found = self.result_types[place]
        if found is None:
            raise GraphError(f"result {place} is not a tensor")
        return element_type(found)

    def shape(self, place: int = 0) -> tuple[int, ...] | None:
        """Return the shape of a result, where PyTorch knew it as plain numbers."""
        return self.result_shapes[place]

    def promoted(self, *names: str) -> str:
        """Return the element type in which PyTorch computes with arguments, tensors and numbers."""
        samples: list[torch.Tensor | Number] = []
        for name in names:
            found = self.arguments.get(name)
            if isinstance(found, bool | int | float):
                samples.append(found)
            else:
                samples.append(sample_of(self.value(name)))
        result = samples[0]
        for one in samples[1:]:
            result = torch.empty((1,) * dimensions(result, one), dtype=torch.result_type(result, one), device="meta")
        return element_type(result.dtype if isinstance(result, torch.Tensor) else torch.result_type(result, result))


def as_list(held: Held) -> tuple[Held, ...]:
    """Return the entries of a list, or what is none as the only one."""
    return held if isinstance(held, tuple) else (held,)


def sample_of(value: Value) -> torch.Tensor:
    """Return a tensor of PyTorch's without data that mixes with others as a value does."""
    kind = cast("torch.dtype", getattr(torch, TORCH_TYPES[value.type.dtype]))
    return torch.empty((1,) * min(value.type.rank, 1), dtype=kind, device="meta")


def dimensions(*samples: torch.Tensor | Number) -> int:
    """Return 1 if one of them has axes, else 0."""
    return max(one.dim() if isinstance(one, torch.Tensor) else 0 for one in samples)
