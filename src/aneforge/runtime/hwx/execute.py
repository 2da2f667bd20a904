"""`execute`: the tasks of a compiled container, run on the software engine bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.exactness import Label, label_of_all
from aneforge.errors import GraphError, HwxError
from aneforge.formats.hwx.ane_file import read_program
from aneforge.formats.hwx.container import Container
from aneforge.formats.hwx.interpreter.walking import Program
from aneforge.records import dataclass
from aneforge.runtime.hwx.task_arithmetic import SoftwareComputer
from aneforge.targets import resolve

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.formats.hwx.container import Port
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["HwxRun", "execute", "target_of", "with_axes_of_one"]


@dataclass(frozen=True, slots=True)
class HwxRun:
    """What the tasks of a container gave.

    >>> import aneforge as af
    >>> x = af.input((1, 1, 1, 2), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13).files[0].container
    >>> ran = execute(container, {"x": np.array([[[[-1.0, 2.0]]]])})
    >>> str(ran.label.exactness), ran.outputs["y"].tolist()
    ('exact', [[[[0.0, 2.0]]]])
    """

    target: str
    outputs: Mapping[str, Array]
    labels: Mapping[int, Label]
    """How sure the result of each task is."""

    def __str__(self) -> str:
        outputs = ", ".join(f"{name} {list(values.shape)}" for name, values in self.outputs.items())
        return f"run on {self.target}, {self.label.exactness}, outputs: {outputs}"

    @property
    def label(self) -> Label:
        """How sure the whole is: the least sure of its tasks."""
        return label_of_all(self.labels.values())


def execute(model: Container | str | os.PathLike[str], inputs: Mapping[str, Array]) -> HwxRun:
    """Run a compiled container: its own tasks in their order, on its own addresses, with the engine's arithmetic.

    Inputs and outputs are arrays by the names of ports, [batch, channels, height, width]; an input may leave out axes
    of one element, or have them elsewhere.

    >>> import aneforge as af
    >>> x = af.input((1, 1, 1, 2), name="x")
    >>> container = af.hwx.emit(x * 0.5, af.targets.Family.A13).files[0].container
    >>> execute(container, {"x": np.array([[[[-1.0, 3.0]]]])}).outputs["y"].tolist()
    [[[[-0.5, 1.5]]]]

    Raises:
        HwxError: The container is damaged; a task is not understood, leaves its memory, or reads what no earlier task
            wrote. The error names the task and the register.
        GraphError: An input is missing, is not one of the program's, or has another shape.
    """
    container = model if isinstance(model, Container) else read_program(model)
    target = target_of(container)
    program = Program(container, np.uint16)
    given = check_inputs(inputs, program.inputs)
    for name, values in given.items():
        program.set_input(name, values.view(np.uint16))
    computer = SoftwareComputer(target)
    program.run(computer)
    outputs = {port.name: program.output(port.name).view(np.float16) for port in program.outputs}
    return HwxRun(target.name, outputs, {task: label_of_all(labels) for task, labels in computer.labels.items()})


def target_of(container: Container) -> Target:
    """Return the target whose engine a container is for: the first of those that share its subtype.

    Raises:
        HwxError: No target has that subtype.
    """
    if not container.targets:
        raise HwxError.at(8, "no target is known for the engine", seen=container.header.cpu_subtype)
    return resolve(container.targets[0])


def check_inputs(inputs: Mapping[str, Array], ports: tuple[Port, ...]) -> dict[str, Array]:
    """Return inputs in fp16, as the host passes them.

    Raises:
        GraphError: One is missing, is not one of the program's, or has another shape.
    """
    names = [port.name for port in ports]
    unknown = sorted(set(inputs) - set(names))
    if unknown:
        raise GraphError("the program has no such input", seen=unknown, limit=names)
    found: dict[str, Array] = {}
    for port in ports:
        if port.name not in inputs:
            raise GraphError(f"input {port.name!r} has no value", seen=sorted(inputs), limit=names)
        array = with_axes_of_one(np.asarray(inputs[port.name]), port.shape)
        if array.shape != port.shape or array.dtype.kind not in "fiu":
            raise GraphError(
                f"input {port.name!r} must be numbers of shape {port.shape}", seen=f"{array.dtype} {array.shape}"
            )
        with np.errstate(over="ignore"):
            found[port.name] = np.ascontiguousarray(array.astype(np.float16))
    return found


def with_axes_of_one(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array in a shape that has other axes of one element; as it is where more differs.

    >>> with_axes_of_one(np.zeros((3, 4)), (1, 3, 1, 4)).shape
    (1, 3, 1, 4)
    """
    longer, given = ([extent for extent in one if extent != 1] for one in (shape, array.shape))
    return array.reshape(shape) if longer == given else array
