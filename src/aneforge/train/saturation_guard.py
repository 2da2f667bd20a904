"""The documented warning of trained convolutions: loss-scaled values that a slice of the width makes infinite.

Warn-only, as documented. The families are those whose `width_slice_crop_x16` is set; the training guide names only the
first of them, measurements also the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.compiler.compile import build_program
from aneforge.errors import SliceSaturationWarning
from aneforge.train.scaled_layers import describe_layer, find_scaled_layers, is_width_crop
from aneforge.train.step_programs import SCALE_INPUT, step_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.train.objectives import Objective
    from aneforge.train.parameter import Parameter

__all__ = ["find_scaled_crops", "warn_of_saturation"]

FIELD = "width_slice_crop_x16"
LEAST_SCALE = 512
"""Documented: a smaller scale is not warned of, unless the program has such a slice of loss-scaled values."""


def find_scaled_crops(program: Program, objective: Objective, params: Sequence[Parameter]) -> list[Layer]:
    """Return the layers of a step that copy a slice of loss-scaled values times 16.

    They are followed in forward and backward pass of one step, with the scale as an input: in the program itself it may
    be a constant, and what an update made of loss-scaled values may be the weights of the step after it.
    """
    if not any(map(is_width_crop, program.layers)):
        return []
    step = build_program(step_graph(objective, params, None).graph, program.place)
    return [layer for layer in find_scaled_layers(step, SCALE_INPUT) if is_width_crop(layer)]


def warn_of_saturation(program: Program, objective: Objective, params: Sequence[Parameter], loss_scale: float) -> None:
    """Warn where slices of the width are copied times 16, and either the documented conditions hold or one is found.

    Documented: a kernel wider than 1 is trained, and the scale is large. The program is that of one step or several.
    """
    target = program.target
    most = target.limits.get("slice_saturation_magnitude")
    if target.datapath.get(FIELD) is not True or not isinstance(most, int | float):
        return
    widths = [one.kernel[3] for one in params if one.kernel is not None and one.kernel[3] > 1]
    found = find_scaled_crops(program, objective, params)
    if not found and not (widths and loss_scale >= LEAST_SCALE):
        return
    kernel = f"a convolution kernel of width {max(widths)} is trained" if widths else "a network is trained"
    here = (
        f"such slices of loss-scaled values in this program: {len(found)}, the first is {describe_layer(found[0])}"
        if found
        else "this program has no such slice of loss-scaled values, so the scale itself is not a risk here"
    )
    warn(
        f"{kernel} with loss_scale {loss_scale:g} on {target.name}, "
        f"where a slice that begins inside the width is copied times 16: loss_scale times a gradient above {most:g} "
        f"becomes infinite, so gradients must stay below {most:g}/{loss_scale:g} = {most / loss_scale:.3g}; {here}. "
        f"Use a lower loss_scale if gradients are inf or NaN. Source: {FIELD}, {target.evidence(FIELD).short}; the "
        "training guide names only the oldest of these families",
        SliceSaturationWarning,
    )
