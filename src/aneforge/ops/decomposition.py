"""Decompositions: an operation written in others, once, on its own entry of the op table.

A decomposition is a function of a `Site`, the operation's operands in order and its attributes by name, as `meaning`
is; it gives a term for every result. Terms are written as users write tensors: `x * gamma + beta`,
`x.reduce_mean(axes=(1,), keep_dims=True)`, any operation of the table by its name. The function knows no graph, no
format and no target: what those allow reaches it as `Limits`.

    before:  %y = rms_norm(x = %x, gamma = @g)
    after:   %a = reduce_l2_norm(x = %x) … %y = mul(x = %c, y = @g·√D)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aneforge.evidence import Evidence, EvidenceKind
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.errors import NotSupportedError
    from aneforge.ops.body import Call
    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array, TensorType

__all__ = ["SAME_MATHEMATICS", "Accuracy", "Decomposition", "Limits", "Site", "Term"]

SAME_MATHEMATICS = Evidence(
    EvidenceKind.INFERRED,
    "aneforge-open",
    note="The mathematics is the operation's own; how the steps are rounded is known as for each of them.",
)
"""Why most decompositions are believed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large tensors may be where the decomposed operation goes; None where nothing is known to limit them."""

    arg_reduction: int | None = None
    """Longest axis along which the index of a largest or smallest element is found."""


class Term(Protocol):
    """A tensor or a constant in a decomposition; methods are the operations of the table, by their names."""

    @property
    def type(self) -> TensorType:
        """Shape and element type."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        ...

    @property
    def dtype(self) -> str:
        """Element type."""
        ...

    @property
    def known(self) -> Array | None:
        """The numbers of a constant, float64 where they are floating-point ones; None for a tensor."""
        ...

    @property
    def is_declared(self) -> bool:
        """It is a weight without values, of which nothing is `known`."""
        ...

    @property
    def encoding(self) -> str | None:
        """How the numbers of a constant are stored; None for a tensor, and for plain numbers."""
        ...

    def __add__(self, other: Term | float) -> Term: ...
    def __sub__(self, other: Term | float) -> Term: ...
    def __mul__(self, other: Term | float) -> Term: ...
    def __truediv__(self, other: Term | float) -> Term: ...
    def __neg__(self) -> Term: ...

    def __getattr__(self, op: str) -> Callable[..., Term]:
        """Return the operation of that name: this term is its first operand, then come the others and attributes."""
        ...


class Site(Protocol):
    """The place where an operation is decomposed."""

    @property
    def limits(self) -> Limits:
        """What there is room for."""
        ...

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The types that the results must have."""
        ...

    def op(self, name: str, *operands: object, **attributes: object) -> Term:
        """Return the first result of an operation."""
        ...

    def several(self, name: str, *operands: object, **attributes: object) -> tuple[Term, ...]:
        """Return all results of an operation."""
        ...

    def same(self, *operands: object, **attributes: object) -> Term:
        """Return the first result of the operation that is decomposed, in another form of it."""
        ...

    def same_several(self, *operands: object, **attributes: object) -> tuple[Term, ...]:
        """Return all results of the operation that is decomposed, in another form of it."""
        ...

    def again(
        self, call: Call, operands: Mapping[str, Term | Constant | tuple[Term | Constant, ...]]
    ) -> tuple[Term, ...]:
        """Return all results of a call of a body at its own place, on operands of the types that it has there."""
        ...

    def evaluated(self) -> tuple[Array, ...]:
        """Return what the operation gives, where all its operands are constants."""
        ...

    def named(self, operands: Sequence[Term | None]) -> Mapping[str, Term]:
        """Return operands but for the first by their names; those that were left out are not there."""
        ...

    def constant(self, values: Array, dtype: str, what: str = "a constant") -> Term:
        """Return numbers as a constant, each rounded once; `what` names them where rounding changes one."""
        ...

    def derived(self, source: Term, how: str, shape: tuple[int, ...], dtype: str) -> Term:
        """Return what is computed of a weight without values, which is another one; `how` distinguishes results."""
        ...

    def supplied(self, kind: TensorType, meaning: str) -> Term:
        """Return a new input that the caller feeds; `meaning` says with what."""
        ...

    def note(self, text: str) -> None:
        """Say what a reader of the changes should know of this one."""
        ...

    def warn(self, text: str) -> None:
        """Warn of precision that is lost, at the user's own line."""
        ...

    def refusal(
        self, message: str, *, seen: object = None, limit: object = None, remedy: str | None = None
    ) -> NotSupportedError:
        """Return the error for operands that the decomposition does not take."""
        ...


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far a decomposition is from the mathematics, before fp16 rounds its steps.

    >>> print(Accuracy(-200.0, 200.0, 6.0e-7))
    largest error 6.0e-07 for x from -200 to 200
    """

    low: float
    high: float
    error: float
    relative: bool = False
    of: str = "x"
    """What the domain is that of."""

    def __str__(self) -> str:
        kind = "largest relative error" if self.relative else "largest error"
        size = f"{kind} {self.error:.1e}" if self.error else "exact"
        return f"{size} for {self.of} from {self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class Decomposition:
    """One way to write an operation in others."""

    name: str
    """What distinguishes it from other decompositions of the same operation."""
    form: str
    """The way in words, for lists of changes."""
    build: Callable[..., Term | Sequence[Term]]
    evidence: Evidence
    """Why it is believed to be right on the engine."""
    accuracy: Accuracy | None = None
    """None where the mathematics is the operation's own."""
    same_operation: bool = False
    """It gives the same operation in another form: it answers one objection, and a dialect asks for it by name."""
    supplies: bool = False
    """It adds inputs that the caller feeds, so a file that is written for no target cannot have it."""
    same_bits: bool = False
    """It rounds nothing that the operation does not: elements are moved, or constants stated otherwise."""
    constants: tuple[str, ...] = ()
    """Operands that must be constants, where the operation itself takes tensors that are computed."""

    def __str__(self) -> str:
        return f"{self.form} ({self.accuracy})" if self.accuracy else self.form
