"""`hwx run`: the tasks of a compiled container on the exact engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.commands.feeding import feed_ports
from aneforge.formats.hwx.ane_file import name_file, read_program
from aneforge.formats.hwx.container import Direction
from aneforge.ops.types import TensorType
from aneforge.runtime.hwx.execute import execute, with_axes_of_one

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from aneforge.ops.types import Array
    from aneforge.runtime.hwx.execute import HwxRun

__all__ = ["run_container"]


def run_container(path: Path, inputs: Mapping[str, Array] | None, seed: int | None = None) -> HwxRun:
    """Run a container; a seed draws the inputs that are not given.

    Raises:
        HwxError: It cannot be read, or a task is not understood; the error names the file, the task and the register.
        GraphError: An input has no value, or one that does not fit.
    """
    container = read_program(path)
    types = {port.name: TensorType(port.shape) for port in container.ports if port.direction is Direction.INPUT}
    given = (
        None
        if inputs is None
        else {
            name: with_axes_of_one(array, types[name].shape) if name in types else array
            for name, array in inputs.items()
        }
    )
    values, _ = feed_ports(types, {}, given, seed)
    with name_file(path):
        return execute(container, values)
