"""Loops with a known number of iterations, whose body is an attribute.

Inputs of a body are called after the operands that feed them: `state0`, `row0`, `fixed0` and so on. Results of a body
are the next states, then what every iteration gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions
from aneforge.ops.body import Body, Reference, call_in_body
from aneforge.ops.common import DECOMPOSED
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.gradient import through
from aneforge.ops.op import Category, Op
from aneforge.ops.sampling import Chooser, Fill, Sample, draw_shape
from aneforge.ops.shapes import normalise_axis
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.body import Call, Source
    from aneforge.ops.signature import AttributeValue

NESTED_MOST = 8
"""Loops within one another; each is written out when the one around it is."""


def scan_types(
    states: tuple[TensorType, ...],
    rows: tuple[TensorType, ...],
    fixed: tuple[TensorType, ...],
    *,
    body: Body,
    axes: tuple[int, ...] | None,
    backward: tuple[bool, ...] | None,
    backward_outputs: tuple[bool, ...] | None,
) -> tuple[TensorType, ...]:
    """Return the types of the final states and of what the iterations give, stacked."""
    if body.depth > NESTED_MOST:
        raise GraphError("loops are nested too deeply", seen=body.depth, limit=NESTED_MOST)
    along = axes or (0,) * len(rows)
    expect_length("axes", along, len(rows))
    expect_length("backward", backward, len(rows))
    iterations = iteration_count(rows, along)
    feeds = {f"state{place}": kind for place, kind in enumerate(states)}
    for place, (kind, axis) in enumerate(zip(rows, along, strict=True)):
        feeds[f"row{place}"] = kind.with_shape(*kind.shape[:axis], *kind.shape[axis + 1 :])
    feeds |= {f"fixed{place}": kind for place, kind in enumerate(fixed)}
    for name, kind in body.inputs.items():
        if feeds.get(name) != kind:
            raise GraphError(f"input {name!r} of the body is not what it is given", seen=kind, limit=feeds.get(name))
    if len(body.types) < max(len(states), 1):
        raise GraphError("the body has too few results", seen=len(body.types), limit=max(len(states), 1))
    for place, (before, after) in enumerate(zip(states, body.types, strict=False)):
        if before != after:
            raise GraphError(f"state {place} changes its type in an iteration", seen=after, limit=before)
    given = body.types[len(states) :]
    expect_length("backward_outputs", backward_outputs, len(given))
    return (*states, *(kind.with_shape(iterations, *kind.shape) for kind in given))


def expect_length(name: str, listed: Sequence[object] | None, count: int) -> None:
    """Check that a list has an item for every tensor that it is about.

    Raises:
        GraphError: It has more or fewer.
    """
    if listed is not None and len(listed) != count:
        raise GraphError(f"{name} must have one item for each tensor", seen=len(listed), limit=count)


def iteration_count(rows: tuple[TensorType, ...], axes: tuple[int, ...]) -> int:
    """Return the number of iterations: how many slices every row has.

    Raises:
        GraphError: There are no rows or no slices, an axis does not exist, or rows have different lengths.
    """
    for kind, axis in zip(rows, axes, strict=True):
        normalise_axis(axis, kind.rank)
    counts = {kind.shape[axis] for kind, axis in zip(rows, axes, strict=True)}
    if len(counts) != 1 or 0 in counts:
        raise GraphError("the rows must have one length, of 1 or more", seen=sorted(counts))
    return counts.pop()


def scan(
    states: tuple[Array, ...],
    rows: tuple[Array, ...],
    fixed: tuple[Array, ...],
    *,
    body: Body,
    axes: tuple[int, ...] | None,
    backward: tuple[bool, ...] | None,
    backward_outputs: tuple[bool, ...] | None,
) -> tuple[Array, ...]:
    """Run the body once for every slice of the rows."""
    slices = [np.moveaxis(row, axis, 0) for row, axis in zip(rows, axes or (0,) * len(rows), strict=True)]
    ordered = [one[::-1] if back else one for one, back in zip(slices, backward or (False,) * len(rows), strict=True)]
    always = {f"fixed{place}": one for place, one in enumerate(fixed)}
    given: list[tuple[Array, ...]] = []
    for iteration in range(len(ordered[0])):
        now = {f"state{place}": one for place, one in enumerate(states)}
        results = body.evaluate(
            {**always, **now, **{f"row{place}": one[iteration] for place, one in enumerate(ordered)}}
        )
        states = results[: len(states)]
        given.append(results[len(states) :])
    stacked = [np.stack(one) for one in zip(*given, strict=True)]
    turned = backward_outputs or (False,) * len(stacked)
    return (*states, *(one[::-1] if back else one for one, back in zip(stacked, turned, strict=True)))


def scan_macs(
    states: tuple[TensorType, ...],
    rows: tuple[TensorType, ...],
    fixed: tuple[TensorType, ...],
    *,
    body: Body,
    axes: tuple[int, ...] | None,
    **_: object,
) -> int:
    """Count what the body multiplies in every iteration."""
    del states, fixed
    return iteration_count(rows, axes or (0,) * len(rows)) * body.macs


def sample_scan(chooser: Chooser) -> Sample:
    """Draw a loop with up to two states, one or two rows, perhaps a fixed tensor, and a short body."""
    iterations, states, count = chooser.integer(1, 4), chooser.integer(0, 2), chooser.integer(1, 2)
    kind = TensorType(draw_shape(chooser, 2, 3))  # fp16: a body is not drawn again in the element type of a test
    axes = tuple(chooser.integer(0, kind.rank) for _ in range(count))
    fill = Fill(kind, -1, 1)
    operands = {
        "states": (fill,) * states,
        "rows": tuple(
            Fill(kind.with_shape(*kind.shape[:axis], iterations, *kind.shape[axis:]), -1, 1) for axis in axes
        ),
        "fixed": (fill,) * chooser.integer(0, 1),
    }
    read = [*(f"row{place}" for place in range(count)), *(f"fixed{place}" for place in range(len(operands["fixed"])))]
    body = draw_body(chooser, kind, [f"state{place}" for place in range(states)], read)
    attributes: dict[str, AttributeValue] = {
        "body": body,
        "axes": axes,
        "backward": tuple(chooser.choose([True, False]) for _ in axes),
        "backward_outputs": tuple(chooser.choose([True, False]) for _ in body.results[states:]),
    }
    return Sample(operands, attributes)


def draw_body(chooser: Chooser, kind: TensorType, states: Sequence[str], others: Sequence[str]) -> Body:
    """Draw a body that joins what it reads, adds a product with a weight to every state, and may give a function."""
    from aneforge.ops.table import find_op  # noqa: PLC0415 - the table imports this module

    calls: list[Call] = []

    def call(op: str, **operands: Source) -> Reference:
        given = {name: (one, one.type if isinstance(one, Constant) else kind) for name, one in operands.items()}
        calls.append(call_in_body(find_op(op), given))
        return Reference(len(calls) - 1)

    read: str | Reference = others[0]
    for other in others[1:]:
        read = call(chooser.choose(["add", "mul", "maximum"]), x=read, y=other)
    extent = kind.shape[-1]
    weight = np.array([chooser.integer(-4, 4) / 8 for _ in range(extent * extent)]).reshape(extent, extent)
    product = call("linear", x=read, weight=Dense(weight.astype(numpy_dtype(kind.dtype))))
    results = [call(chooser.choose(["add", "sub", "minimum"]), x=state, y=product) for state in states]
    if not states or chooser.choose([True, False]):
        results.append(call(chooser.choose(["relu", "tanh"]), x=results[-1] if results else product))
    return Body(dict.fromkeys((*states, *others), kind), tuple(calls), tuple(results))


SCAN = Op(
    name="scan",
    category=Category.STATE,
    summary="a body for each slice of rows, states carried from one to the next: final states, and the rest stacked",
    operands=(
        Operand("states", variadic=True),
        Operand("rows", variadic=True),
        Operand("fixed", variadic=True),
    ),
    attributes=(
        Attribute("body", AttributeKind.BODY),
        Attribute("axes", AttributeKind.INTEGERS, None, least=0),
        Attribute("backward", AttributeKind.FLAGS, None),
        Attribute("backward_outputs", AttributeKind.FLAGS, None),
    ),
    infer=scan_types,
    meaning=scan,
    macs=scan_macs,
    sample=sample_scan,
    support=DECOMPOSED,
    catalogued=False,
    decompositions=lambda: (decompositions.loops.ITERATIONS,),
    in_mil=False,
    gradient=lambda: through("iterations", "through its iterations"),
)
