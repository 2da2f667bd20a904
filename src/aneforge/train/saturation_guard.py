"""The documented warning of trained convolutions: loss-scaled values that a slice of the width makes infinite.

Warn-only, as documented. The families are those whose `width_slice_crop_x16` is set; the training guide names the first
of them alone, measurements also the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.compiler.passes.choose_slice_route import FIXED_POINT
from aneforge.errors import SliceSaturationWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.program import Program
    from aneforge.train.parameter import Parameter
    from aneforge.train.step_programs import Programs

__all__ = ["warn_of_saturation", "width_crops"]

FIELD = "width_slice_crop_x16"
LEAST_SCALE = 512
"""Documented: a smaller scale is not warned of."""


def width_crops(program: Program) -> int:
    """Return how many layers of a program copy a slice in fixed point.

    >>> import aneforge as af
    >>> part = af.input((1, 1, 4, 8)).slice_by_size([0, 0, 0, 2], [1, 1, 4, 4])
    >>> [width_crops(af.build_program(part, family)) for family in (af.targets.Family.A13, af.targets.Family.A16)]
    [1, 0]
    """
    return sum(layer.choices.get("format") == FIXED_POINT for layer in program.layers)


def warn_of_saturation(programs: Programs, params: Sequence[Parameter], loss_scale: float) -> None:
    """Warn where slices of the width are copied times 16, a kernel wider than 1 is trained and the scale is large."""
    program = programs.step.model.program
    target = program.target
    widths = [one.kernel[3] for one in params if one.kernel is not None and one.kernel[3] > 1]
    most = target.limits.get("slice_saturation_magnitude")
    if target.datapath.get(FIELD) is not True or not widths or loss_scale < LEAST_SCALE:
        return
    if not isinstance(most, int | float):
        return
    found = width_crops(program) - width_crops(programs.forward.model.program)
    here = (
        f"such slices of loss-scaled values in this program: {found}"
        if found > 0
        else "this program has no such slice of loss-scaled values, so the scale itself is not a risk here"
    )
    warn(
        f"a convolution kernel of width {max(widths)} is trained with loss_scale {loss_scale:g} on {target.name}, "
        f"where a slice that begins inside the width is copied times 16: loss_scale times a gradient above {most:g} "
        f"becomes infinite, so gradients must stay below {most:g}/{loss_scale:g} = {most / loss_scale:.3g}; {here}. "
        f"Use a lower loss_scale if gradients are inf or NaN. Source: {FIELD}, {target.evidence(FIELD).short}",
        SliceSaturationWarning,
    )
