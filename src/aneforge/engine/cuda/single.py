"""One operation on a device, for whoever compares kernels with the golden model: fuzzers and tests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.cuda.device_operations import Operations
from aneforge.engine.cuda.plans import Role
from aneforge.engine.cuda.primitives import HALF, Builder
from aneforge.engine.cuda.tensors import Tensor
from aneforge.engine.dispatch import UNARY, arithmetic

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.engine.cuda.device import Device
    from aneforge.ops.signature import AttributeValue
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Operand = Array | tuple[Array, ...] | None

__all__ = ["run_operation"]


def run_operation(
    device: Device,
    op: str,
    target: Target,
    given: Mapping[str, Operand],
    constants: Mapping[str, Operand],
    attributes: Mapping[str, AttributeValue],
) -> tuple[Array, ...]:
    """Run an operation on what is given, which has an axis of samples first, and on constants, with all attributes.

    Raises:
        UnsuitedError: There are no kernels for it.
    """
    samples = next(
        len(one)
        for value in given.values()
        for one in (value if isinstance(value, tuple) else (value,))
        if one is not None
    )
    builder = Builder(samples, {})
    operations = Operations(builder, partial(arithmetic, target=target))
    fed: dict[str, Array] = {}

    def port(array: Array) -> Tensor:
        tensor = builder.empty(array.shape[1:], array.dtype, role=Role.KEPT)
        fed[f"x{len(fed)}"] = array
        builder.plan.inputs[f"x{len(fed) - 1}"] = tensor
        return tensor

    operands: dict[str, Any] = dict(constants)
    for name, value in given.items():
        operands[name] = tuple(map(port, value)) if isinstance(value, tuple) else None if value is None else port(value)
    x = operands.get("x")
    if op in UNARY and isinstance(x, Tensor) and x.dtype == HALF:
        results: tuple[Tensor, ...] = (builder.lookup(x, arithmetic(op, target).table(attributes), op)[0],)
    else:
        results = operations.run(op, operands, attributes)
    plan = builder.plan
    plan.outputs = {f"y{number}": builder.contiguous(one) for number, one in enumerate(results)}
    plan.items[:0] = builder.begin()
    loaded = device.load(plan)
    try:
        loaded.start(fed)
        outputs, findings = loaded.finish()
    finally:
        loaded.release()
    undecided = builder.findings.undecided
    words = (
        findings[0].view(np.uint32).reshape(-1, samples + 1)[list(undecided), :-1] if undecided else np.zeros((0, 0))
    )
    for sample in np.flatnonzero(words.any(axis=0)).tolist():  # as in a program, the golden model decides
        single = {name: pick_sample(value, sample) for name, value in given.items()}
        wanted = arithmetic(op, target).golden_results({**constants, **single}, attributes)
        for name, array in zip(plan.outputs, wanted, strict=True):
            outputs[name][sample] = array
    return tuple(np.asarray(outputs[name]) for name in plan.outputs)


def pick_sample(value: Operand, sample: int) -> Operand:
    """Return an operand of one sample."""
    return tuple(one[sample] for one in value) if isinstance(value, tuple) else None if value is None else value[sample]
