"""What a rescaling did: every product and norm with its exponents, margin and error, and the errors of the whole."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.display import as_html, cut_lines
from aneforge.engine.execution.epilogue import ONE_ROUNDING
from aneforge.ops.op import Trait
from aneforge.ops.table import ops_with
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.errors import Location
    from aneforge.graph.graph import Graph

__all__ = ["OutputError", "ProductRescaling", "Rescaled", "format_percent"]


def format_percent(error: float) -> str:
    """Return an error as text.

    >>> format_percent(0.00125), format_percent(math.inf)
    ('0.125%', 'infinite')
    """
    return "infinite" if math.isinf(error) else f"{error:.3%}"


@dataclass(frozen=True, slots=True)
class ProductRescaling:
    """What was done to one product or norm, and what that gives on its own: the same operands before and after."""

    name: str
    """The number of its node, as programs call it: `t3`."""
    op: str
    location: Location | None
    operand: str
    """The operand that was multiplied; empty where none was."""
    exponents: tuple[int, ...]
    """Powers of two by which it was multiplied: one for all, or one for every output channel."""
    error_before: float
    """Of only this product on the target's engine, against float64, in the norm of all results; NaN if not tried."""
    error_after: float
    margin: float
    """Bits between the bound of any partial sum, as it is now, and 2^15, or between a tensor that is multiplied and
    65,504, if those are fewer; of a norm, those by which what it reads can grow until the squares of a row add up to
    65,504."""
    applied: bool
    reason: str
    """Why it was left as it was; empty where it was rescaled."""

    def refuse(self, reason: str) -> ProductRescaling:
        """Return the report of a product that stays as it was."""
        error, margin = self.error_before, self.margin + max(self.exponents)
        return replace(self, operand="", exponents=(0,), error_after=error, margin=margin, applied=False, reason=reason)

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        head = f"{self.name} {self.op}{where}"
        if not self.applied:
            return f"{head}: as it was, {self.reason}"
        least, most = min(self.exponents), max(self.exponents)
        powers = f"2^{least}" if least == most else f"2^{least} to 2^{most} by channel"
        errors = f"error {format_percent(self.error_before)} -> {format_percent(self.error_after)}"
        return f"{head}: {self.operand} times {powers}, {errors}, margin {self.margin:.1f} bits"


@dataclass(frozen=True, slots=True)
class OutputError:
    """The error of one output of the whole graph, or of a state that it writes."""

    name: str
    before: float
    """On the inputs that gains were chosen by: the engine against float64, in the norm of all elements."""
    after: float
    fresh_before: float
    """The largest on inputs that were drawn again from the same distribution."""
    fresh_after: float

    def __str__(self) -> str:
        return (
            f"{self.name}: error {format_percent(self.before)} -> {format_percent(self.after)}, "
            f"on fresh inputs {format_percent(self.fresh_before)} -> {format_percent(self.fresh_after)}"
        )


@dataclass(frozen=True, slots=True)
class Rescaled:
    """A graph that means the same, and what the engine makes of it."""

    graph: Graph
    target: str
    source: str
    """`declared`: bounds hold for all inputs within the ranges. `observed`: seen for sample inputs. `drawn`: seen for
    inputs that were drawn here."""
    safety_bits: int
    """Bits that are left free above what was seen; none above what is proven."""
    products: tuple[ProductRescaling, ...]
    outputs: tuple[OutputError, ...]
    layers_before: int
    """Layers of the compiled program."""
    layers_after: int
    remarks: tuple[str, ...] = ()

    @property
    def applied(self) -> tuple[ProductRescaling, ...]:
        """The products and norms that were rescaled."""
        return tuple(product for product in self.products if product.applied)

    @property
    def label(self) -> str:
        """How sure the errors after are."""
        return f"modelled: {ONE_ROUNDING}" if self.applied else ""

    def __str__(self) -> str:
        bounds = f"bounds {self.source}, {self.safety_bits} bits of safety"
        norms = ops_with(Trait.NORMALISING)
        what = "products and norms" if any(one.op in norms for one in self.products) else "products"
        lines = [f"rescaled for {self.target} ({bounds}): {len(self.applied)} of {len(self.products)} {what}"]
        lines += [f"  {product}" for product in self.products]
        lines += [f"  output {output}" for output in self.outputs]
        lines.append(f"  layers: {self.layers_before} -> {self.layers_after}")
        lines += [f"  {remark}" for remark in (self.label, *self.remarks) if remark]
        return cut_lines(lines)

    def _repr_html_(self) -> str:
        return as_html(self)
