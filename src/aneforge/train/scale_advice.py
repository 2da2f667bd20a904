"""Which loss scale a network needs on a target, from one mini-batch: computed on the exact engine, not guessed.

Two things bound it. Products below 2^-16 vanish in the multiply-accumulate array, so a small scale loses gradients; and
values above 65,504, sums above 32,768 and, on some families, slices of the width above 4,094 become infinite.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.callsite import keep_warnings
from aneforge.engine.execution.run import prepare
from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.graph import INPUT
from aneforge.graph.tensor import Tensor
from aneforge.ops.numbers import FP16_MAX
from aneforge.records import dataclass
from aneforge.targets import place_of
from aneforge.train.batches import check_one_hot, check_values
from aneforge.train.objectives import CrossEntropy, as_objective
from aneforge.train.optimisers import check_params
from aneforge.train.run_comparison import label_of
from aneforge.train.scaled_layers import describe_layer, find_scaled_tensors, is_width_crop
from aneforge.train.step_programs import SCALE_INPUT, build_programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.engine.execution.run import Executable
    from aneforge.graph.node import Node
    from aneforge.ops.types import Array
    from aneforge.targets import Place, TargetLike
    from aneforge.train.objectives import Objective
    from aneforge.train.parameter import Parameter
    from aneforge.train.scaled_layers import ScaledTensor
    from aneforge.train.step_programs import Programs

__all__ = ["LossScaleAdvice", "TensorAdvice", "TensorAtScale", "advise", "advise_alone", "loss_scale_advice"]

SCALES = tuple(4.0**power for power in range(9))
"""Scales that are tried."""
MARGIN = 16.0
"""Times that every value may grow before it becomes infinite: gradients of later mini-batches are larger."""
AS_GOOD = 1.25
"""An error up to this many times the least counts as good, and the largest such scale is taken: gradients shrink."""
NEGLIGIBLE = 2.0**-40
"""A tensor below this share of the largest gradient is 0 but for the rounding of float64: it has no relative error."""
ROWS_SHOWN = 24


@dataclass(frozen=True, slots=True)
class TensorAtScale:
    """One tensor at one scale."""

    loss_scale: float
    lost: float | None
    """The share of its products that vanish; None where it is not a sum of products."""
    headroom: float
    """How many times larger it may become before it is infinite."""
    error: float
    """The relative error against float64 (root mean square); infinite where a value is not finite."""


@dataclass(frozen=True, slots=True)
class TensorAdvice:
    """A tensor that holds loss-scaled values."""

    name: str
    largest: float
    """The largest magnitude for a scale of 1."""
    limit: float
    """The magnitude from which it is infinite: 65,504, 32,768 for a sum of products, 4,094 for some slices."""
    is_gradient: bool
    """True for the gradient of a parameter."""
    scales: tuple[TensorAtScale, ...]

    def at(self, loss_scale: float) -> TensorAtScale:
        """Return the figures of a scale that was tried."""
        return next(one for one in self.scales if one.loss_scale == loss_scale)


@dataclass(frozen=True, slots=True)
class LossScaleAdvice:
    """The scale that a network needs on a target, and what every loss-scaled tensor does at others."""

    target: str
    recommended: float
    reason: str
    scales: tuple[float, ...]
    tensors: tuple[TensorAdvice, ...]

    def error(self, loss_scale: float) -> float:
        """Return the largest relative error of a parameter's gradient at a scale."""
        return max(one.at(loss_scale).error for one in self.tensors if one.is_gradient)

    def headroom(self, loss_scale: float) -> float:
        """Return how many times larger gradients may become at a scale before a value is infinite."""
        return min(one.at(loss_scale).headroom for one in self.tensors)

    def __str__(self) -> str:
        shown = [one for one in self.tensors if one.is_gradient]
        others = [one for one in self.tensors if not one.is_gradient]
        others.sort(key=lambda one: one.at(self.recommended).headroom)
        shown += others[: max(ROWS_SHOWN - len(shown), 0)]
        head = ["scale", *(f"{scale:g}" for scale in self.scales)]
        rows = [line for one in shown for line in rows_of(one)]
        hidden = len(self.tensors) - len(shown)
        return "\n".join(
            [
                f"loss_scale {self.recommended:g} on {self.target}: {self.reason}",
                " | ".join(head),
                *(" | ".join(row) for row in rows),
                *([f"and {hidden} tensors with more headroom"] if hidden else []),
                "error: against float64; lost: products that vanish; headroom: factor up to infinity",
            ]
        )

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def rows_of(tensor: TensorAdvice) -> list[list[str]]:
    """Return the lines of a tensor in the table."""
    head = f"{tensor.name} (largest {tensor.largest:.3g}, limit {tensor.limit:g})"
    rows = [[f"{head}: error", *(f"{one.error:.2g}" for one in tensor.scales)]]
    if tensor.scales[0].lost is not None:
        rows.append(["  lost", *(f"{one.lost or 0.0:.0%}" for one in tensor.scales)])
    return [*rows, ["  headroom", *(f"{one.headroom:.2g}" for one in tensor.scales)]]


def loss_scale_advice(
    objective: Tensor | CrossEntropy,
    params: Sequence[Parameter],
    data: Mapping[Tensor, object],
    target: TargetLike = None,
) -> LossScaleAdvice:
    """Return the loss scale that a network needs on a target, from one mini-batch.

    `data` has a value for every input. Every scale is run on the exact engine and compared with float64.

    >>> import numpy as np
    >>> import aneforge as af
    >>> random = np.random.default_rng(0)
    >>> x, t = af.input((32, 16)), af.input((32, 1))
    >>> w = af.parameter(random.standard_normal((16, 1)) * 1e-3, name="w")
    >>> data = {x: random.standard_normal((32, 16)), t: random.standard_normal((32, 1)) * 1e-2}
    >>> advice = af.loss_scale_advice(af.mse(x @ w, t), [w], data, af.targets.Family.A16)
    >>> advice.recommended, advice.error(1.0) > 0.004, advice.error(advice.recommended) < 0.002
    (16384.0, True, True)

    Raises:
        GraphError: An input has no value, or one that does not fit; or `Trainer` refuses the objective or parameters.
        GraphTypeError: An argument has the wrong type.
        AneforgeError: Whatever `compile` raises.
    """
    return advise_alone(as_objective(objective), check_params(params), data, place_of(target))


def advise_alone(
    objective: Objective,
    params: Sequence[Parameter],
    data: Mapping[Tensor, object],
    place: Place,
    gradient_limit: float = FP16_MAX,
) -> LossScaleAdvice:
    """Return the advice from programs that are compiled only for it.

    Raises:
        GraphError: An input has no value, or one that does not fit.
        AneforgeError: Whatever `backward` and `compile` raise.
    """
    with keep_warnings():  # the trainer, or `compile`, says what compiling warns of
        programs = build_programs(objective, params, None, place, None)
    try:
        given = {one.node: one.value for one in params} | objective.new_module_state().next_masks()
        feeds = check_feeds(programs, given, data)
        if isinstance(objective, CrossEntropy):
            check_one_hot(feeds[objective.target.node])
        return advise(objective, params, programs, feeds, gradient_limit)
    finally:
        programs.release()


def check_feeds(programs: Programs, given: Mapping[Node, Array], data: object) -> dict[Node, Array]:
    """Return the values of all inputs but the scale: those that are given, and data.

    Raises:
        GraphError: An input has no value, or one that does not fit, or a value is for something else.
        GraphTypeError: They are not given by input.
    """
    if not isinstance(data, Mapping):
        raise GraphTypeError("data must be arrays by input", seen=type(data).__name__)
    feeds = dict(given)
    inputs = {node: name for name, node in programs.step.graph.inputs.items() if node is not programs.scale}
    for tensor, value in cast("Mapping[object, object]", data).items():
        if not isinstance(tensor, Tensor) or tensor.op != INPUT or tensor.node not in inputs:
            raise GraphError(
                "a key of data must be an input that the objective is computed from",
                seen=f"{tensor.op} of shape {list(tensor.shape)}" if isinstance(tensor, Tensor) else repr(tensor),
            )
        array = check_values(value, f"data of {inputs[tensor.node]!r}")
        if array.shape != tensor.shape:
            raise GraphError(
                "a value must have the shape of its input", seen=list(array.shape), limit=list(tensor.shape)
            )
        feeds[tensor.node] = array
    missing = [name for node, name in inputs.items() if node not in feeds]
    if missing:
        raise GraphError(
            "every input needs a value", seen=f"none for {', '.join(map(repr, missing))}", remedy="add it to data"
        )
    return feeds


def advise(
    objective: Objective,
    params: Sequence[Parameter],
    programs: Programs,
    feeds: Mapping[Node, Array],
    gradient_limit: float = FP16_MAX,
) -> LossScaleAdvice:
    """Return the advice for programs whose scale is an input.

    The update bounds gradients of parameters: `gradient_limit` is the largest that it takes.
    """
    program = programs.step.model.program
    inputs = {
        name: np.asarray(feeds[node]).astype(np.float16)
        for name, node in programs.step.graph.inputs.items()
        if node is not programs.scale
    }
    limit = program.target.limits.get("slice_saturation_magnitude")
    crop_limit = float(limit) if isinstance(limit, int | float) else FP16_MAX
    unscaled = {**inputs, SCALE_INPUT: np.full((1, 1), objective.seed_of(1.0))}
    tensors = find_scaled_tensors(program, unscaled, SCALE_INPUT, crop_limit)
    scales = tuple(scale for scale in SCALES if objective.seed_of(scale) <= FP16_MAX)
    ready = prepare(program)
    labels = gradient_labels(programs, params)
    largest = max(size_of_exact(one) for one in tensors if one.layer.name in labels)
    least = NEGLIGIBLE * largest
    errors = [errors_at(ready, tensors, inputs, objective.seed_of(scale), scale, least) for scale in scales]
    described = tuple(
        describe_tensor(
            tensor.bounded_by(gradient_limit) if tensor.layer.name in labels else tensor,
            labels.get(tensor.layer.name),
            scales,
            [found[place] for found in errors],
        )
        for place, tensor in enumerate(tensors)
    )
    return recommend(LossScaleAdvice(programs.target, scales[0], "", scales, described))


def size_of_exact(tensor: ScaledTensor) -> float:
    """Return the size of a tensor for a scale of 1, as root of the sum of squares."""
    return float(np.linalg.norm(tensor.exact))


def errors_at(
    ready: Executable,
    tensors: Sequence[ScaledTensor],
    inputs: Mapping[str, Array],
    seed: float,
    loss_scale: float,
    least: float,
) -> list[float]:
    """Return the relative errors of tensors on the engine, run with a scale; those below a size have none."""
    fed = np.full((1, 1), seed).astype(np.float16)
    values = ready.run({**inputs, SCALE_INPUT: fed}, keep=True).values
    return [relative_error(values[one.layer.name], one.exact * loss_scale, least * loss_scale) for one in tensors]


def relative_error(found: Array, exact: Array, least: float) -> float:
    """Return the root mean square of errors, as a share of that of the values; infinite where one is not finite.

    Values that are all 0 have no error, and neither have those that would be but for rounding, such as the gradient
    of a bias before a batch norm: what the engine has there is noise at any scale.
    """
    if not np.isfinite(found).all():
        return math.inf
    size = float(np.linalg.norm(exact))
    return float(np.linalg.norm(found.astype(np.float64) - exact)) / size if size > least else 0.0


def gradient_labels(programs: Programs, params: Sequence[Parameter]) -> dict[str, str]:
    """Return the names of gradients by the layers that compute them."""
    ports = {port.name: port.value.name for port in programs.step.model.program.outputs}
    return {ports[name]: f"gradient of {label_of(params, place)}" for place, name in enumerate(programs.gradients)}


def describe_tensor(
    tensor: ScaledTensor, label: str | None, scales: Sequence[float], errors: Sequence[float]
) -> TensorAdvice:
    """Return a tensor's row."""
    crop = " (copied times 16)" if is_width_crop(tensor.layer) else ""
    return TensorAdvice(
        name=label or f"{describe_layer(tensor.layer)}{crop}",
        largest=tensor.largest,
        limit=tensor.limit,
        is_gradient=label is not None,
        scales=tuple(
            TensorAtScale(scale, tensor.products and tensor.products.lost_share(scale), tensor.headroom(scale), error)
            for scale, error in zip(scales, errors, strict=True)
        ),
    )


def recommend(found: LossScaleAdvice) -> LossScaleAdvice:
    """Return the same with a recommendation: of the scales with margin, the largest whose error is as good as any."""
    finite = [scale for scale in found.scales if math.isfinite(found.error(scale))]
    safe = [scale for scale in finite if found.headroom(scale) >= MARGIN]
    usable = safe or finite[:1] or [found.scales[0]]
    least = min(found.error(scale) for scale in usable)
    best = max(scale for scale in usable if found.error(scale) <= AS_GOOD * least)
    error, headroom = found.error(best), found.headroom(best)
    reason = f"gradients have an error of {error:.2g}, and may become {headroom:.3g} times larger"
    if not safe:
        reason += f"; no scale leaves a margin of {MARGIN:g}: divide the loss by a constant"
    return LossScaleAdvice(found.target, best, reason, found.scales, found.tensors)
