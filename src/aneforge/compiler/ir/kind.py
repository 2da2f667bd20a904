"""A kind of layer: what the engine does in one operation, on which of its units, and what it can absorb.

Kinds have the compiler's own names (`anec.convolution`). The rows of `data/kinds.toml` say on which unit a kind runs
and which slots it has or fills; shape rule and meaning are those of an operation of the op table, or are written in
`meanings/` where the layer's form is not the operation's.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.ops.definition import Definition
from aneforge.ops.op import Op, Trait
from aneforge.ops.results import EVERYTHING, Codomain, Product
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.evidence import Evidence
    from aneforge.ops.signature import Attribute, AttributeValue, Operand
    from aneforge.ops.types import Array, TensorType

__all__ = ["DIALECT", "Engine", "Kind", "LayerForm", "Slot"]

DIALECT = "anec"


class Engine(StrEnum):
    """The unit that runs a layer."""

    NE = "NE"
    """The multiply-accumulate array."""
    PE = "PE"
    """The planar engine: elementwise, pooling, reductions."""
    TE = "TE"
    """The transpose and texture engine."""
    DMA = "DMA"
    """Moves data; computes nothing."""


class Slot(StrEnum):
    """The seven places after an engine operation, in the order in which the hardware applies them (listing 22.3)."""

    TEXTURE = "texture"
    BROADCAST = "broadcast"
    PRE_ACTIVATION = "pre_activation"
    GAIN_OFFSET = "gain_offset"
    POST_ACTIVATION = "post_activation"
    TRANSPOSE = "transpose"
    QUANTISE = "quantise"

    @property
    def place(self) -> int:
        """Its number in the order of application."""
        return PLACES[self]


PLACES = {slot: place for place, slot in enumerate(Slot)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerForm:
    """What a layer takes and gives whose form is not that of an operation of the table."""

    operands: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]
    infer: Callable[..., TensorType]
    meaning: Callable[..., Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind(Definition):
    """A kind of layer."""

    engines: tuple[Engine, ...]
    """The units that can run it, the usual one first."""
    hosts: frozenset[Slot] = frozenset()
    """The slots after a layer of this kind."""
    fills: tuple[Slot, ...] = ()
    """The slots of other layers that it can fill."""
    bridge: bool = False
    """It is a program of its own: programs are cut before and after it."""
    op: str | None = None
    """The operation of the table that it has the meaning of; None where the form is the layer's own."""
    entry: Op
    """The operation of the table whose facts hold for it: the one that it is, or stands for."""
    evidence: Evidence

    def __repr__(self) -> str:
        return f"<{DIALECT}.{self.name}>"

    @property
    def flowing(self) -> str:
        """The name of the operand that flows through a layer of this kind when it fills a slot."""
        return self.operands[0].name

    @property
    def is_elementwise(self) -> bool:
        """It works on single elements, its operands broadcast, and is not a program of its own."""
        return Trait.ELEMENTWISE in self.entry.traits and not self.bridge

    @property
    def product(self) -> Product | None:
        """The operands whose products it sums, by the names that this kind has for them."""
        found = self.entry.product
        if found is None:
            return None
        places = [operand.name for operand in self.entry.operands]
        data, weight = (self.operands[places.index(name)].name for name in (found.data, found.weight))
        return Product(data, weight)

    def codomain_for(self, attributes: Mapping[str, AttributeValue]) -> Codomain:
        """Return the interval of all results of a layer with these attributes, before the slots after it."""
        return self.entry.codomain_for(attributes) if self.op else EVERYTHING
