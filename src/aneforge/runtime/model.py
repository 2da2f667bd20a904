"""Models: what `compile` returns. Called with arrays they give arrays; they show what was compiled, and for what.

A model is a loaded program with the manners of the documented interface: float32 comes out, whatever the ports hold.
Threads may call one model, or several, at the same time: calls of one model run one after the other, since its ports
have one buffer each; models do not wait for one another.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np

from aneforge.compiler.memory.planner import plan
from aneforge.compiler.schedule.schedule import schedule
from aneforge.display import as_html, clauses_once, cut_lines
from aneforge.errors import GraphError, GraphTypeError, NotSupportedError, UnknownNameError
from aneforge.runtime.executables import RunsMany
from aneforge.runtime.program import LoadedProgram
from aneforge.runtime.saved.files import write_program_file

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from aneforge.analysis.cost import Cost
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Note, Program, Segment
    from aneforge.compiler.memory.plan import MemoryPlan
    from aneforge.compiler.schedule.schedule import Schedule
    from aneforge.engine.exactness import Label
    from aneforge.graph.convert import SuppliedInput
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array
    from aneforge.optimise.compress.graphs import WeightReport
    from aneforge.runtime.backends import Backend
    from aneforge.runtime.facts import Caution, ModelFacts

__all__ = ["AnyModel", "Model", "MultiModel", "SegmentedModel", "load_compiled"]


class ModelBase:
    """What all models share: the loaded program, and what is known of it."""

    def __init__(
        self, loaded: LoadedProgram, facts: ModelFacts, backend: str, source: Callable[[], Graph] | None = None
    ) -> None:
        self.loaded = loaded
        """The level below: ports, buffers, states."""
        self.facts = facts
        self.source = source
        """What gives the graph again; None for a model that was read from a file."""
        self.backend = backend
        """The name of the backend that runs it."""

    @property
    def program(self) -> Program:
        """The compiled program."""
        return self.loaded.program

    @cached_property
    def graph(self) -> Graph:
        """The graph that it was compiled from, rescaled and its weights encoded as asked for, as exporters take it.

        Raises:
            GraphError: The model was read from a file, which holds only the program.
        """
        if self.source is None:
            raise GraphError(
                "a model that was read from a file has no graph, only its program",
                remedy="export the graph, or the model that was compiled from it",
            )
        return self.source()

    @property
    def target(self) -> str:
        """The name of the target that it was compiled for."""
        return self.program.target.name

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the program in their order."""
        return self.program.layers

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The layers by segment; each is a program of its own on the engine."""
        return self.program.segments

    @property
    def n_ops(self) -> int:
        """Operations of the graph that are fused into programs; native layers are counted by `n_netplist`."""
        return self.facts.n_ops

    @property
    def n_netplist(self) -> int:
        """How many layers run as programs of their own."""
        return sum(segment.bridge for segment in self.segments)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the compiler did that a reader should know."""
        return self.program.notes

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was done in addition to compiling: the variant that was chosen, the cache."""
        executable = self.loaded.executable
        on_host = executable.host_layers() if isinstance(executable, RunsMany) and not self.loaded.released else ()
        return (*self.facts.remarks, *(f"runs on the host, for it has no kernels: {one}" for one in on_host))

    @property
    def warnings(self) -> tuple[Caution, ...]:
        """The warnings that compiling gave."""
        return self.facts.warnings

    @property
    def weights(self) -> tuple[WeightReport, ...]:
        """What compression made of each weight; nothing where none was asked for."""
        return self.facts.weights

    @property
    def supplied(self) -> tuple[SuppliedInput, ...]:
        """Inputs that retargeting added after the others, such as random numbers.

        The runtime draws them from the seed of their operation; a caller may feed others, after the values for `inputs`
        that the graph has.
        """
        return self.facts.supplied

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order in which values are fed."""
        return tuple(self.loaded.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(self.loaded.outputs)

    @cached_property
    def exactness(self) -> Label:
        """How sure the numbers are, from the program only; `last_label` is for the values that went in last."""
        return self.loaded.executable.label

    @property
    def last_label(self) -> Label | None:
        """How sure the outputs of the last execution are; None before the first."""
        return self.loaded.label

    @cached_property
    def cost(self) -> Cost:
        """The predicted time of one call on the chip that it was compiled for, layer by layer."""
        from aneforge.analysis.cost import cost_of  # noqa: PLC0415 - loaded when it is asked for

        return cost_of(self)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the program, made when it is first asked for."""
        return self._schedule

    @property
    def plan(self) -> MemoryPlan:
        """The memory plan of the program, verified, made when it is first asked for."""
        return self._plan

    @cached_property
    def _schedule(self) -> Schedule:
        return schedule(self.program)

    @cached_property
    def _plan(self) -> MemoryPlan:
        return plan(self.program, self.schedule)

    def in_order(self, arrays: tuple[object, ...], named: Mapping[str, object]) -> tuple[object, ...]:
        """Return values for the inputs in their order: the first ones as they come, the others by name.

        Raises:
            UnknownNameError: A value is given for an input that there is not.
            GraphError: An input is given twice or not at all.
        """
        if not named:
            return arrays
        first, rest = self.inputs[: len(arrays)], self.inputs[len(arrays) :]
        for name in named:
            if name not in self.inputs:
                raise UnknownNameError.of("input", name, self.inputs)
            if name in first:
                raise GraphError(f"the input {name!r} is given twice", remedy="give it in its place or by its name")
        drawn = {one.name for one in self.supplied}
        missing = [name for name in rest if name not in named and name not in drawn]
        if missing:
            raise GraphError("inputs have no values", seen=f"missing {', '.join(missing)}", limit=len(self.inputs))
        return (*arrays, *(named[name] for name in rest if name in named))

    def input_view(self, name: str | None = None) -> Array:
        """Return the buffer of an input itself, to write into before `execute`.

        Raises:
            UnknownNameError: There is no such input.
            RuntimeStateError: The model was released.
        """
        return self.loaded.input_view(name)

    def output_view(self, name: str | None = None) -> Array:
        """Return the buffer of an output itself, which every execution overwrites.

        Raises:
            UnknownNameError: There is no such output.
            RuntimeStateError: The model was released.
        """
        return self.loaded.output_view(name)

    def execute(self) -> None:
        """Run once on what the input buffers hold.

        Raises:
            RuntimeStateError: The model was released.
        """
        self.loaded.execute()

    def release(self) -> None:
        """Give back what the model holds. A second time does nothing; any other use afterwards is an error."""
        self.loaded.release()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to one file, which `af.load_program` reads; return its path.

        Raises:
            OSError: The file cannot be written.
            RuntimeStateError: The model was released.
        """
        self.loaded.check_usable("save")
        return write_program_file(path, self.program, self.facts)

    def __reduce__(self) -> NoReturn:
        raise GraphTypeError(
            "a model is not copied or pickled: its ports and states are here",
            remedy="model.save writes it to a file, af.load_program reads it, in another process too",
        )

    def __enter__(self) -> Self:
        self.loaded.check_usable("enter")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        ports = ", ".join(f"{name} {port.type}" for name, port in self.loaded.inputs.items())
        given = ", ".join(f"{name} {port.type}" for name, port in self.loaded.outputs.items())
        state = "released" if self.loaded.released else str(self.exactness.exactness)
        return (
            f"<{type(self).__name__} for {self.target} on {self.backend}: {ports} -> {given}; "
            f"layers: {len(self.layers)}, fused operations: {self.n_ops}, {state}>"
        )

    def __str__(self) -> str:
        constants = self.program.constants.values()
        size = sum(constant.nbytes for constant in constants)
        lines = [
            repr(self),
            f"programs: {len(self.segments)}, of which {self.n_netplist} are native layers",
            f"constants: {len(constants)}, {size:,} {'byte' if size == 1 else 'bytes'}",
            f"exactness: {self.exactness.exactness}: {clauses_once(self.exactness.reason)}",
            *(f"input drawn by the host: {one.name}, {one.meaning}" for one in self.supplied),
            *(f"warning: {one}" for one in self.warnings),
            *(f"note: {one.stage}{f' %{one.layer}' if one.layer else ''}: {one.text}" for one in self.notes),
            *(f"remark: {one}" for one in self.remarks),
            *(f"weight: {one}" for one in self.weights),
        ]
        return cut_lines(lines)

    def _repr_html_(self) -> str:
        return as_html(self)


class Model(ModelBase):
    """A model of one output.

    >>> import numpy as np, aneforge as af
    >>> model = af.compile((af.input((1, 2)) * 2.0).relu(), target=af.targets.Family.A13)
    >>> model(np.array([[1.5, -1.0]])).tolist()
    [[3.0, 0.0]]
    >>> model.cost.microseconds > 0
    True
    >>> model.backend, str(model.exactness.exactness)
    ('software', 'exact')
    """

    def __call__(self, *arrays: object, **named: object) -> Array:
        """Run once and return the output in float32.

        Values are fed in the order in which the inputs were made, or by the names of the inputs: `model(image=x)`.

        Raises:
            GraphError: There are more or fewer values than inputs, or one has another shape.
            GraphTypeError: A value is of a type that its port does not take.
            RuntimeStateError: The model was released.
        """
        (output,) = self.loaded.eval(*self.in_order(arrays, named)).values()
        return as_float32(output)

    def run_many(self, *arrays: object, **named: object) -> Array:
        """Run many samples and return the output of each in float32; values have one more axis, the first.

        The bits are those of one call after the other, on every backend; a GPU runs many samples at a time. States go
        from one sample to the next.

        >>> import numpy as np, aneforge as af
        >>> model = af.compile(af.input((1, 2)) * 2.0, target=af.targets.Family.A13)
        >>> model.run_many(np.array([[[1.5, -1.0]], [[0.5, 2.0]]])).tolist()
        [[[3.0, -2.0]], [[1.0, 4.0]]]

        Raises:
            GraphError: There are more or fewer values than inputs, or one has another shape or number of samples.
            GraphTypeError: A value is of a type that its port does not take.
            RuntimeStateError: The model was released.
        """
        (output,) = self.loaded.eval_many(*self.in_order(arrays, named)).values()
        return as_float32(output)


class SegmentedModel(Model):
    """A model whose program is cut at layers that run as programs of their own.

    >>> import aneforge as af
    >>> q, k, v = (af.input((1, 2, 8, 4)) for _ in range(3))
    >>> model = af.compile(af.sdpa(q, k, v, native=True) * 2.0, target=af.targets.Family.A16)
    >>> type(model).__name__, model.n_netplist, len(model.segments)
    ('SegmentedModel', 1, 2)
    """

    @property
    def n_sdpa(self) -> int:
        """The older name of `n_netplist`."""
        return self.n_netplist


class MultiModel(ModelBase):
    """A model of several outputs, which it returns by name.

    >>> import numpy as np, aneforge as af
    >>> x = af.input((1, 2))
    >>> model = af.compile_multi({"double": x * 2.0, "half": x * 0.5}, target=af.targets.Family.A16)
    >>> {name: value.tolist() for name, value in model(np.array([[1.0, 3.0]])).items()}
    {'double': [[2.0, 6.0]], 'half': [[0.5, 1.5]]}
    """

    def __call__(self, *arrays: object, **named: object) -> dict[str, Array]:
        """Run once and return every output in float32, by name; values are fed in order or by name.

        Raises:
            GraphError: There are more or fewer values than inputs, or one has another shape.
            GraphTypeError: A value is of a type that its port does not take.
            RuntimeStateError: The model was released.
        """
        return {name: as_float32(output) for name, output in self.loaded.eval(*self.in_order(arrays, named)).items()}

    def run_many(self, *arrays: object, **named: object) -> dict[str, Array]:
        """Run many samples and return every output of each in float32; values have one more axis, the first.

        >>> import numpy as np, aneforge as af
        >>> x = af.input((1,))
        >>> model = af.compile_multi({"double": x * 2.0, "half": x * 0.5}, target=af.targets.Family.A16)
        >>> {name: value.tolist() for name, value in model.run_many(np.array([[1.0], [3.0]])).items()}
        {'double': [[2.0], [6.0]], 'half': [[0.5], [1.5]]}

        Raises:
            GraphError: There are more or fewer values than inputs, or one has another shape or number of samples.
            GraphTypeError: A value is of a type that its port does not take.
            RuntimeStateError: The model was released.
        """
        found = self.loaded.eval_many(*self.in_order(arrays, named))
        return {name: as_float32(output) for name, output in found.items()}


AnyModel = Model | MultiModel


def as_float32(array: Array) -> Array:
    """Return an output as callers get it."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def load_compiled(
    program: Program,
    facts: ModelFacts,
    backend: Backend,
    graph: Graph | None,
    source: Callable[[], Graph] | None = None,
) -> AnyModel:
    """Return the model of a program, ready to run; `graph` is what the backend compiles, `source` what it came from.

    Raises:
        BackendUnavailableError: The backend cannot run here.
        NotSupportedError: The program has no output, or the backend has no form for it.
        RuntimeStateError: This process has loaded the maximum number of programs.
    """
    if not program.outputs:
        raise NotSupportedError(
            "the graph has no output, only states", remedy="make what a state becomes an output too"
        )
    loaded = LoadedProgram(program, backend.load(program, graph), facts.supplied)
    if facts.several:
        return MultiModel(loaded, facts, backend.name, source)
    chosen = SegmentedModel if any(layer.kind.bridge for layer in program.layers) else Model
    return chosen(loaded, facts, backend.name, source)
