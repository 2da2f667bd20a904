"""One entry of the op table: all there is to say of an operation, in one place.

The functions of an entry (`infer`, `meaning`, `macs`) take the operation's operands in order and its attributes by
name, as `aneforge.ops.definition` says; `macs` sees types, as `infer` does. What is only asked of few operations, their
decompositions and gradients, is given by functions without parameters, so that the modules of the others stay unread.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.ops.definition import Definition, OperandTypes
from aneforge.ops.results import EVERYTHING, Codomain, Taking
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.ops.decomposition import Decomposition
    from aneforge.ops.gradient import Gradient, NoGradient
    from aneforge.ops.results import Movement, Product
    from aneforge.ops.sampling import Chooser, Sample
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import TensorType

__all__ = ["Basis", "Below", "Category", "MilStatus", "Op", "Support", "Surface", "Trait", "Work"]


class Category(StrEnum):
    """The chapter of the catalogue that lists an operation."""

    ACTIVATION = "activation"
    DETECTION = "detection"
    ELEMENTWISE = "elementwise"
    IMAGE = "image"
    LAYER = "convolution, matmul and pooling"
    LOGIC = "compare and logic"
    NORMALISATION = "normalisation"
    QUANTISATION = "quantisation"
    RECURRENT = "recurrent"
    REDUCTION = "reduction"
    STATE = "state"
    STRUCTURAL = "structural"
    TRIGONOMETRY = "trigonometry"


class Surface(StrEnum):
    """Through which door an operation is documented to reach the engine."""

    FUSED = "fused"
    """A builder operation that is emitted into a fused MIL program."""
    NATIVE_LAYER = "native layer"
    """A builder operation that runs as a layer of its own, authored as a network description."""
    MIL = "MIL"
    """An operation of MIL without a builder function of its own."""


class Basis(StrEnum):
    """How a floor is known."""

    STATED = "stated"
    """A source gives it for this operation."""
    SYMBOL = "symbol"
    """It follows from the template symbols of the compiler."""
    LIKELY = "likely"
    """A reconstruction that no source states."""


class Below(StrEnum):
    """What happens to an operation on a family below its floor."""

    REJECT = "reject"
    DECOMPOSE = "decompose"


class MilStatus(StrEnum):
    """What the MIL front end does with an operation on a family that does not run it natively."""

    BRIDGE = "bridge"
    """A network description can carry it; MIL cannot."""
    SOFTWARE = "software"
    """The compiler builds it from other operations."""
    FOLD = "fold"
    """The compiler computes it when it compiles."""
    INTERNAL = "internal"
    """The compiler makes it for itself; no program can ask for it."""
    NONE = "none"
    """No form of it reaches the engine."""


class Trait(StrEnum):
    """What several operations have in common, so that a rule about all of them names none."""

    ARG_REDUCTION = "arg-reduction"
    """It gives the place of the largest or the smallest element along an axis."""
    AVERAGING = "averaging"
    """It divides what a window sees by a count."""
    BOUNDING = "bounding"
    """It leaves the numbers of some interval as they are."""
    COMPARING = "comparing"
    """It says how numbers compare, or how many there are: the same in every element type that holds them."""
    DATA_SHAPE = "data shape"
    """The shape of its result depends on the values; the inferred type is the largest there can be."""
    CONVOLUTION = "convolution"
    """It slides a kernel of weights."""
    ELEMENTWISE = "elementwise"
    """It works on every element by itself, or on those that share a place after broadcasting."""
    EXTREME = "extreme"
    """It gives the largest or the smallest of elements."""
    FORWARD_CONVOLUTION = "forward convolution"
    """It slides a kernel over its input; a transposed one slides over its result."""
    GATHERING = "gathering"
    """It looks elements of `x` up by integers, its `indices`."""
    INDICES = "indices"
    """It reads or makes places of elements."""
    LIST = "list"
    """Its result is a list of MIL, which is a tensor of its elements in a graph."""
    MASKING = "masking"
    """It can put a mask on what a softmax reads, or takes one itself."""
    MATRIX_PRODUCT = "matrix product"
    """It multiplies matrices along the last two axes."""
    NORMALISING = "normalising"
    """It divides by the root of a sum or mean of squares."""
    PASSING_A_STATE = "passing a state"
    """Its result is the state that the first operand is whose elements it moves."""
    PLACES = "places"
    """Its results are places of elements of `x`."""
    POOLING = "pooling"
    """It makes one element of what a window sees."""
    RANDOM = "random"
    """Its results are others at every run, though nothing else goes in."""
    REDUCTION = "reduction"
    """It sums, averages, or takes the largest or smallest along axes."""
    RESIZING = "resizing"
    """It gives an image with another number of rows and columns."""
    ROUNDING = "rounding"
    """It gives integers near to those that go in."""
    SCATTERING = "scattering"
    """It writes `updates` into `data`, at places that `indices` say."""
    SHRINKING = "shrinking"
    """No result has a larger magnitude than the element that it is made of, on the engine either."""
    SLICING = "slicing"
    """It cuts a part out, at places that attributes say."""
    SQUARING_SUM = "squaring sum"
    """It adds squares, or squares a sum."""
    STANDARDISING = "standardising"
    """It subtracts the mean and divides by the root of the variance."""
    UNROUNDED = "unrounded"
    """Half precision holds every result, where it holds the operands and attributes."""


@dataclass(frozen=True, slots=True)
class Support:
    """Where an operation runs.

    Two routes are kept apart: the operation's family floor (`floor`, and `gate` for the network-description route), and
    what the MIL front end was seen or decoded to do (`mil_since`, `mil_otherwise`).
    """

    floor: int | None = 0
    """The lowest family that has it: 0, 2, 3 or 4; None if no family has."""
    gate: str | None = None
    """HAL field that must be set on the network-description route."""
    below: Below = Below.REJECT
    """What happens below the floor: everywhere, if no family has it."""
    basis: Basis = Basis.STATED
    mil_since: int | None = 2
    """The lowest family on which a MIL program runs it natively; None if none does."""
    mil_otherwise: MilStatus = MilStatus.NONE
    """What the front end does on the other families."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one call costs, whatever the target."""

    macs: int
    bytes_in: int
    bytes_out: int
    bytes_weights: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Op(Definition):
    """An operation of the table."""

    category: Category
    summary: str
    macs: Callable[..., int] | None = None
    """Multiply-accumulates of one call; None for none."""
    sample: Callable[[Chooser], Sample]
    surface: Surface = Surface.MIL
    mil: str | None = None
    """Spelling in MIL, where it differs from the name or is several operations' own."""
    in_mil: bool
    """It is one operation of MIL; what is not is a layer of its own, or is emitted as several."""
    opset: str = "ios15"
    """First MIL opset that has it in this form; attributes that have defaults may have come later."""
    support: Support = Support()
    catalogued: bool = True
    """It is a row of the catalogue of MIL operations."""
    traits: frozenset[Trait] = frozenset()
    codomain: Codomain | Callable[..., Codomain] = EVERYTHING
    """The interval of all results; a function of the attributes, by name, where they decide."""
    movement: Movement | None = None
    """What it moves, where all its results are elements of operands."""
    indexed: Callable[..., Sequence[int]] | None = None
    """Returns the extents in which its `indices` count, of its first operand's type, theirs and the attributes: one for
    all of them, or one for each along their last axis."""
    product: Product | None = None
    """The operands whose products it sums, where it does that and nothing else but add an offset."""
    aliases: Mapping[str, Mapping[str, AttributeValue]] = field(
        default_factory=dict[str, "Mapping[str, AttributeValue]"]
    )
    """Other names by which it is found, with the attributes that each of them says."""
    decompositions: Callable[[], tuple[Decomposition, ...]] = tuple
    """Returns the ways to write it in other operations, the usual one first."""
    gradient: Callable[[], Gradient | NoGradient] | None = None
    """Returns how a gradient passes through it, or why none does; None for an entry that does not say."""

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        from aneforge.ops.table import find_op  # noqa: PLC0415 - the table imports this module

        return find_op, (self.name,)

    @property
    def mil_name(self) -> str | None:
        """Spelling in MIL; None for what is not one operation of MIL."""
        return (self.mil or self.name) if self.in_mil else None

    @property
    def is_function_of_one(self) -> bool:
        """True if a result depends on one element of `x` and the attributes, and on nothing else."""
        alone = [operand.name for operand in self.operands] == ["x"]
        return alone and Trait.ELEMENTWISE in self.traits and Trait.RANDOM not in self.traits

    @property
    def rounds(self) -> bool:
        """True if a result may need rounding; an element of an operand never does."""
        chosen = self.movement is not None and self.movement.taking is not Taking.BETWEEN
        return not chosen and Trait.UNROUNDED not in self.traits

    def decomposition(self, name: str) -> Decomposition | None:
        """Return the decomposition of that name; None where it has none."""
        return next((one for one in self.decompositions() if one.name == name), None)

    def attributes_by_name(self, name: str, given: Mapping[str, object]) -> Mapping[str, object]:
        """Return the attributes of a call by the operation's name or an alias: what the alias says, and what is given.

        Raises:
            GraphError: An attribute is given that is not what the alias says.
        """
        said = self.aliases.get(name, {})
        for attribute, value in said.items():
            if given.get(attribute, value) != value:
                raise GraphError(
                    f"{name} is {self.name} with {attribute} = {value!r}",
                    operation=name,
                    seen=f"{attribute} = {given[attribute]!r}",
                    remedy=f"leave {attribute} out, or write {self.name}",
                )
        return {**said, **given} if said else given

    def codomain_for(self, attributes: Mapping[str, AttributeValue]) -> Codomain:
        """Return the interval of all results of a call with these attributes."""
        return self.codomain if isinstance(self.codomain, Codomain) else self.codomain(**attributes)

    def work(
        self,
        operands: OperandTypes,
        attributes: Mapping[str, AttributeValue],
        constants: Mapping[str, int] | None = None,
        results: tuple[TensorType, ...] | None = None,
    ) -> Work:
        """Return what one call costs; `constants` gives the stored bytes of the operands that are constants.

        The types of the results are inferred where they are not given.
        """
        results = self.types(operands, attributes) if results is None else results
        weights = constants or {}
        tensors = [
            tensor
            for name, value in operands.items()
            if name not in weights and value is not None
            for tensor in (value if isinstance(value, tuple) else (value,))
        ]
        macs = self.macs(*self._in_order(operands), **attributes) if self.macs else 0
        return Work(
            macs=macs,
            bytes_in=sum(tensor.nbytes for tensor in tensors),
            bytes_out=sum(tensor.nbytes for tensor in results),
            bytes_weights=sum(weights.values()),
        )
