"""What a task does, as values that an engine or a graph can work with: tensors in memory, and work on them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from aneforge.formats.hwx.interpreter.activation_tables import ActivationTable
from aneforge.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aneforge.formats.hwx.descriptors.meaning import TaskMeaning
    from aneforge.formats.hwx.interpreter.address_views import Five, View

    Bits = NDArray[np.uint16]

__all__ = [
    "FUNCTIONS",
    "Activation",
    "Bound",
    "ChannelMaximum",
    "ConstantKernel",
    "Convolution",
    "Copy",
    "Elements",
    "NeuralWork",
    "Normalisation",
    "PairReduction",
    "PlanarWork",
    "Reduction",
    "RuntimeKernel",
    "Source",
    "Step",
    "Sum",
    "Window",
    "Work",
]


PAIRS = {
    ("add", False): "add",
    ("add", True): "sub",
    ("mul", False): "mul",
    ("max", False): "maximum",
    ("min", False): "minimum",
}
"""Operations of pairs, by what the planar engine does and whether it negates the second source."""
FUNCTIONS = {"reciprocal": "inverse", "rsqrt": "rsqrt"}
"""Operations of the planar engine's functions."""


class Bound(StrEnum):
    """What the neural engine does to a result before it leaves."""

    NONE = "none"
    RELU = "relu"


Activation: TypeAlias = Bound | ActivationTable


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that a task reads."""

    view: View
    kept: View | None = None
    """Where in L2 it stays for later tasks."""
    buffer: View | None = None
    """The buffer in L2 through which it passes, which is overwritten."""
    exchanged: bool = False
    """Channels and width are exchanged when it is read."""


@dataclass(frozen=True, slots=True)
class ConstantKernel:
    """Weights [outer, inner, height, width] and biases that the file holds."""

    weights: Bits
    biases: Bits | None


@dataclass(frozen=True, slots=True)
class RuntimeKernel:
    """Weights that an earlier task wrote: places of elements in a space."""

    space: str
    places: NDArray[np.int64]
    register: str


@dataclass(frozen=True, slots=True)
class Window:
    """How the kernel of a convolution goes over its source."""

    height: int
    width: int
    strides: tuple[int, int]
    pad: tuple[int, int, int, int]
    """Rows above and below, columns left and right."""
    groups: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Elements as they are, scaled, then an activation."""

    scale: float
    activation: Activation


@dataclass(frozen=True, slots=True)
class Convolution:
    """Sums of products, scaled, then an activation."""

    kernel: ConstantKernel | RuntimeKernel
    window: Window
    scale: float
    activation: Activation


@dataclass(frozen=True, slots=True)
class Sum:
    """Sums of channels on the neural engine, where every weight is 1, from a start; then an activation."""

    window: Window
    channels: int
    """Input channels of an output channel."""
    start: float
    activation: Activation
    from_accumulator: bool
    """The activation's table reads the sum before it is rounded."""


@dataclass(frozen=True, slots=True)
class ChannelMaximum:
    """The largest of some channels; then an activation."""

    channels: int
    activation: Activation


@dataclass(frozen=True, slots=True)
class Elements:
    """The planar engine on elements: sources combined, scaled, an offset added, a function."""

    operation: str
    """add, mul, max, min or square of sum; add with one source is that source."""
    negated: tuple[bool, bool]
    absolute: bool
    scale: float
    offset: float
    epsilon: float
    function: str
    relu: bool

    @property
    def pair_operation(self) -> str | None:
        """The operation of the table that combines two sources so; None where none does."""
        if self.scale != 1 or self.offset != 0 or self.absolute or self.negated[0]:
            return None
        return PAIRS.get((self.operation, self.negated[1]))


@dataclass(frozen=True, slots=True)
class Reduction:
    """The planar engine over the plane of every channel: sum or maximum, times a factor, a function of it."""

    kind: str
    order: tuple[int, ...]
    """Axes that go, those of larger strides first: the order in which terms are added."""
    factor: float
    epsilon: float
    function: str

    def operation(self, count: int) -> str | None:
        """Return the operation of the table that reduces so many numbers so; None where none does."""
        if self.function != "none" or self.epsilon:
            return None
        mean = float(np.float32(1.0) / np.float32(count))
        named = {("sum", mean): "reduce_mean", ("sum", 1.0): "reduce_sum", ("max", 1.0): "reduce_max"}
        return named.get((self.kind, self.factor))


@dataclass(frozen=True, slots=True)
class PairReduction:
    """A sum of a function of two sources, times a factor; a function of it."""

    operation: str
    negated: tuple[bool, bool]
    order: tuple[int, ...]
    factor: float
    epsilon: float
    function: str


@dataclass(frozen=True, slots=True)
class Normalisation:
    """(source 1 - row 0 of source 2) · row 1 of source 2."""


NeuralWork: TypeAlias = Copy | Convolution | Sum | ChannelMaximum
PlanarWork: TypeAlias = Elements | Reduction | PairReduction | Normalisation
Work: TypeAlias = NeuralWork | PlanarWork


@dataclass(frozen=True, slots=True)
class Step:
    """A task that is understood."""

    index: int
    meaning: TaskMeaning
    sources: tuple[Source, ...]
    results: tuple[View, ...]
    """Where the result goes: memory, L2 or both."""
    exchanged: bool
    """Channels and width of the result are exchanged before it is written."""
    relu_of_source: bool
    work: Work
    doubts: tuple[str, ...]

    @property
    def result_shape(self) -> Five:
        """Extents of what the work gives, before channels and width are exchanged."""
        groups, channels, depth, height, width = self.results[0].extents
        return (groups, width, depth, height, channels) if self.exchanged else self.results[0].extents

    @property
    def cost(self) -> int:
        """Elements that are read and written, and products of sums."""
        moved = sum(one.view.elements for one in self.sources) + sum(view.elements for view in self.results)
        if not isinstance(self.work, Convolution | Sum):
            return moved
        window, source = self.work.window, self.sources[0].view.extents
        channels = source[0] * source[1] // window.groups
        return moved + self.results[0].elements * channels * window.height * window.width

    def place(self, view: View) -> str:
        """Return the task and the register of a tensor, for messages."""
        return f"task {self.index}: {view.register}"
