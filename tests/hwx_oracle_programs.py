"""Programs of Apple's compiler as whole containers: their words, ports by rule, and constants of our own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from aneforge.engine.dispatch import arithmetic
from aneforge.formats.hwx.container import Base, Direction, Header, ProgramState
from aneforge.formats.hwx.descriptors.codec import decode_task
from aneforge.formats.hwx.descriptors.meaning import TaskMeaning, meaning
from aneforge.formats.hwx.interpreter.coefficients import KernelShape, packing_of
from hwx_programs import Shape, changed_bodies, container_of
from hwx_tasks import Oracle, oracles
from hwx_tools import REASON, hwx_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.formats.hwx.container import Container, Port
    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

GENERATION = 7
NO_GRID = 0x40
FRAME_BYTES = 16
LEFT_OUT = ("conv_strided", "conv_multi")
"""Families without a test: the weights of the first have a form that is not known in all of its parts, the second is
one convolution that takes long."""


SUBTYPES = {7: 4, 8: 6, 11: 5, 17: 7, 19: 9, 20: 10}
"""Subtypes of containers by generation."""


def programs() -> dict[str, Oracle]:
    """Return the programs of the compiler by name; none where there is no folder of them."""
    folder = hwx_data()
    found = oracles(folder) if folder is not None else ()
    return {one.name: one for one in found if one.family not in LEFT_OUT}


def each_program(*, first: bool) -> pytest.MarkDecorator:
    """Return a test of each program of the first generation or of the later ones, whole programs alone."""
    chosen = [
        pytest.param(one, id=name)
        for name, one in programs().items()
        if (one.generation == GENERATION) is first and (first or one.params["op"] != "matmul")
    ]
    return pytest.mark.parametrize("oracle", chosen or [pytest.param(None, marks=pytest.mark.skip(reason=REASON))])


EACH_PROGRAM, EACH_LATER_PROGRAM = each_program(first=True), each_program(first=False)


@dataclass(frozen=True)
class OracleProgram:
    """A program and its constants."""

    container: Container
    weights: Array | None = None
    biases: Array | None = None

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What it reads."""
        return tuple(port for port in self.container.ports if port.direction is Direction.INPUT)


def program_of(oracle: Oracle) -> OracleProgram:
    """Return a program of the compiler as a container."""
    if oracle.generation != GENERATION:
        return later_program_of(oracle)
    tasks, params = tasks_of(oracle), oracle.params
    match params["op"]:
        case "conv":
            return convolution_program(tasks, params)
        case "matmul":
            return matmul_program(tasks, params)
        case op:
            x, y = four(params["x"]), params.get("y")
            ports = {
                "x": x,
                "y": result_shape(params),
                **({"z": four(cast("list[int]", y))} if isinstance(y, list) else {}),
            }
            return OracleProgram(container_of(tasks, ports, constants=table_of(op, params), scratch=0x10000))


def later_program_of(oracle: Oracle) -> OracleProgram:
    """Return a program of one task of a later generation: base registers are those that its packets name."""
    task = decode_task(oracle.tasks[0], oracle.generation, FRAME_BYTES)
    made = (
        convolution_program([task], oracle.params) if oracle.params["op"] == "conv" else elements_program(task, oracle)
    )
    container = replace(made.container, header=Header(SUBTYPES[oracle.generation]))
    names = {"x": "source.source1_base", "y": "destination.result_base", "z": "source.source2_base"}
    slots = {port.address: task.slot(names[port.name]) for port in container.ports}
    kernels = ("kernel_source.kernel_base", "kernel_source.table_base")
    constant = next(filter(None, (task.slot(name) for name in kernels if task.layout.has(name))), None)
    slots[container.constants["__TEXT/__const"].address] = constant
    bases = tuple(Base(slot // 2, address) for address, slot in slots.items() if slot is not None)
    state = {"flavor": 4, "bases": bases}
    return replace(made, container=changed_bodies(container, ProgramState, lambda _: True, state))


def elements_program(task: Task, oracle: Oracle) -> OracleProgram:
    """Return a task on elements with its ports and its table."""
    x, y = four(oracle.params["x"]), oracle.params.get("y")
    ports = {"x": x, "y": x, **({"z": four(cast("list[int]", y))} if isinstance(y, list) else {})}
    return OracleProgram(container_of([task], ports, constants=table_of(str(oracle.params["op"]), oracle.params)))


def tasks_of(oracle: Oracle) -> list[Task]:
    """Return the tasks at the offsets that they name."""
    found: list[Task] = []
    for words in oracle.tasks:
        offset = (found[-1].integer("header.next_offset") or 0) if found else 0
        found.append(decode_task(words, GENERATION, offset))
    return found


def four(shape: Sequence[int]) -> Shape:
    """Return a shape with four axes."""
    batch, channels, height, width = (*(1,) * (4 - len(shape)), *shape)
    return batch, channels, height, width


def result_shape(params: Mapping[str, Any]) -> Shape:
    """Return the shape of what an operation gives."""
    if params["op"] == "transpose":
        return four([params["x"][axis] for axis in params["perm"]])
    gone = params.get("axes", ()) if params["op"].startswith("reduce") else ()
    return four([1 if axis in gone else extent for axis, extent in enumerate(four(params["x"]))])


def table_halves(name: str) -> npt.NDArray[np.uint16]:
    """Return a published table of an activation; zeros for an operation without one."""
    folder = hwx_data()
    assert folder is not None
    found = json.loads((folder / "luts.json").read_text(encoding="utf-8")).get(name)
    return np.array([int(half, 16) for half in found["halfwords"]] if found else [0] * 64, np.uint16)


def table_of(op: str, params: Mapping[str, Any]) -> bytes:
    """Return the table of an activation, if it has one, and room after it."""
    lines = np.zeros(64, np.uint16)
    lines[[0, 1, 2, 3]] = 0xFC00, 0x7C00, 0xFC00, 0x7C00
    lines[[37, 39, 41]] = 0x3C00, 0x3C00, NO_GRID
    number = np.float16(params.get("alpha", params["y"] if isinstance(params.get("y"), float) else 0)).view(np.uint16)
    places = {"leaky_relu": [37], "maximum": [0, 2], "minimum": [1, 3]}.get(op, [])
    lines[places] = number
    named = {"softmax": "exp"}.get(op, op)
    return (lines if places else table_halves(named)).tobytes() + bytes(0x4000)


def convolution_program(tasks: Sequence[Task], params: Mapping[str, Any]) -> OracleProgram:
    """Return a convolution with drawn weights."""
    shape = (params["cout"], params["cin"] // params["groups"], *params["kernel"])
    weights, biases = drawn_weights(shape, bias=params["bias"])
    ports = {"x": four([params["cin"], *params["in_hw"]]), "y": four([params["cout"], *params["out_hw"]])}
    constants = packed([meaning(task) for task in tasks], weights, biases)
    return OracleProgram(container_of(tasks, ports, constants=constants), weights, biases)


def matmul_program(tasks: Sequence[Task], params: Mapping[str, Any]) -> OracleProgram:
    """Return a product with a constant matrix or with two inputs."""
    x, w = params["x"], params["w"]
    if not params["constant_y"]:
        ports = {"y": four([x[0], w[1]]), "w": four(w), "x": four(x)}
        return OracleProgram(container_of(tasks, ports, scratch=0x4000))
    weights, _ = drawn_weights((*w, 1, 1), bias=False)
    constants = packed([meaning(task) for task in tasks], weights, None)
    ports = {"y": four([x[0], w[0]]), "x": four(x)}
    return OracleProgram(container_of(tasks, ports, constants=constants, scratch=0x10000), weights[:, :, 0, 0])


def drawn_weights(shape: tuple[int, ...], *, bias: bool) -> tuple[Array, Array | None]:
    """Return weights and biases."""
    generator = np.random.default_rng(1)
    weights = (generator.standard_normal(shape) * 0.3).astype(np.float16)
    return weights, generator.standard_normal(shape[0]).astype(np.float16) if bias else None


def packed(tasks: Sequence[TaskMeaning], weights: Array, biases: Array | None) -> bytes:
    """Return the constants of the one task that has a kernel."""
    (task,) = (one for one in tasks if one.kernel is not None)
    kernel, window = task.kernel, task.window
    assert kernel is not None
    assert window is not None
    streams = [stream for stream in kernel.streams if stream is not None]
    inner = window.unicast_channels if window.unicast else task.sources[0].extents.channels
    outer = task.result.extents.channels
    shape = KernelShape(task.groups, outer, inner, window.height, window.width, kernel.lanes, kernel.bias)
    packing = packing_of(shape, [stream.base for stream in streams])
    section = np.zeros(max(stream.base + stream.size for stream in streams) // 2, np.uint16)
    section[packing.weights] = weights.reshape(packing.weights.shape).view(np.uint16)
    if biases is not None and packing.biases is not None:
        section[packing.biases] = biases.reshape(packing.biases.shape).view(np.uint16)
    return section.tobytes()


def expected_result(oracle: Oracle, made: OracleProgram, inputs: Mapping[str, Array], target: Target) -> Array:
    """Return what the engine gives for the operation of a program."""
    params, x = oracle.params, inputs["x"]
    op, operands, attributes = str(params["op"]), {"x": x}, given_attributes(params)
    if op == "conv":
        operands |= {"weight": cast("Array", made.weights)} | ({} if made.biases is None else {"bias": made.biases})
    elif op == "matmul":
        operands["y"] = inputs["w"] if made.weights is None else made.weights
    elif op == "transpose":
        operands["x"] = x.reshape(params["x"])
    elif isinstance(params.get("y"), list):
        operands["y"] = inputs["z"]
    elif op in {"add", "mul"}:
        op, attributes = f"{op}s", {"k": params["y"]}
    elif "y" in params:
        operands["y"] = np.full_like(x, params["y"])
    return arithmetic(op, target).compute(operands, attributes)[0]


def given_attributes(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the operation of a program."""
    match params["op"]:
        case "conv":
            pads = [pad for axis in (0, 1) for pad in pads_of(params, axis)]
            window = {"strides": tuple(params["stride"]), "pad_type": "custom", "pad": tuple(pads)}
            return {**window, "groups": params["groups"]}
        case "matmul":
            return {"transpose_y": params["constant_y"]}
        case "layer_norm":  # the register of epsilon is fp16
            return {"axes": tuple(params["axes"]), "epsilon": float(np.float16(params["epsilon"]))}
        case _:
            names = ("axes", "axis", "keep_dims", "perm", "alpha", "epsilon")
            found = {name: params[name] for name in names if name in params}
            if params["op"] == "rsqrt":
                found.setdefault("epsilon", 1e-6)  # what every program of it has, named or not
            return {
                name: tuple(cast("list[int]", value)) if isinstance(value, list) else value
                for name, value in found.items()
            }


def pads_of(params: Mapping[str, Any], axis: int) -> tuple[int, int]:
    """Return the padding before and after an axis."""
    if params["pad"] != "same":
        return 0, 0
    kernel, stride = params["kernel"][axis], params["stride"][axis]
    total = max(0, (params["out_hw"][axis] - 1) * stride + kernel - params["in_hw"][axis])
    return total // 2, total - total // 2
