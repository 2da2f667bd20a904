"""Models of the private framework: in memory (compiled from MIL), on disk (a shell without symbols), and simulated.

An in-memory model can be evaluated and has no symbols. A model on disk is what chaining asks for; made from a
MIL-compiled folder it is a shell whose symbol table stays empty, which is where the study ended. Only a simulated model
has a symbol table: `ANEModel.with_symbol_table(programs, simulate=True)`.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from aneforge.compiler.ir.program import Program
from aneforge.errors import BackendUnavailableError, GraphError, RuntimeStateError, UnknownNameError
from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_instance, check_integer, check_items, check_quality
from aneforge.runtime.chaining.chaining_request import ANERequest
from aneforge.runtime.chaining.chaining_study import ENTITLEMENT, SIMULATED, name_as_studied, simulating, study
from aneforge.runtime.executables import SoftwareEngine
from aneforge.runtime.ports import Direction
from aneforge.runtime.program import LoadedProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from aneforge.runtime.chaining.surfaces import IOSurface
    from aneforge.runtime.ports import Port

__all__ = [
    "ANEInMemoryModel",
    "ANEInMemoryModelDescriptor",
    "ANEModel",
    "ANEProgramForEvaluation",
    "ModelState",
    "SymbolTable",
    "check_simulated",
    "check_surface",
    "running_error",
]

DEFAULT_QUALITY = 21
"""The default quality of service (maderix repository, class map)."""


class ModelState(StrEnum):
    """Where a model is.

    >>> ModelState.CREATED.number, ModelState.LOADED.number, ModelState.FAILED.number, ModelState.COMPILED.number
    (1, 3, 5, None)
    """

    CREATED = "created"
    COMPILED = "compiled"
    LOADED = "loaded"
    FAILED = "failed"
    UNLOADED = "unloaded"

    @property
    def number(self) -> int | None:
        """The system's own number; None where it was not printed."""
        return study().states[self.value].number


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """The inputs and outputs of a procedure, in the order of their indices.

    >>> import aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> model = ANEModel.with_symbol_table([program], simulate=True)
    >>> table = model.symbol_table(0)
    >>> [port.name for port in table.inputs], [port.name for port in table.outputs], table.simulated
    (['x'], ['y'], True)
    """

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    simulated: bool = False
    """No other model was seen to have symbols."""

    @classmethod
    def of(cls, loaded: LoadedProgram) -> SymbolTable:
        """Return the ports of a program as symbols."""
        return cls(tuple(loaded.inputs.values()), tuple(loaded.outputs.values()), simulated=True)

    def symbol(self, direction: Direction, index: int) -> Port:
        """Return a symbol.

        Raises:
            UnknownNameError: There is no such symbol.
        """
        known = self.inputs if direction is Direction.INPUT else self.outputs
        if index >= len(known):
            listed = ", ".join(f"{place} ({port.name})" for place, port in enumerate(known)) or "none"
            raise UnknownNameError(f"there is no {direction} symbol {index}; known: {listed}")
        return known[index]


@name_as_studied("_ANEProgramForEvaluation")
class ANEProgramForEvaluation:
    """`_ANEProgramForEvaluation`: a program that was loaded, with a queue of requests.

    >>> import aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> loaded = ANEProgramForEvaluation(program)
    >>> loaded.intermediate_buffer_handle, loaded.queue_depth, loaded.pending
    (0, 127, 0)
    """

    def __init__(self, program: Program, *, simulated: bool = False) -> None:
        self.simulated = simulated
        """It is a procedure of a simulated model."""
        self.program_handle = handle_of(program)
        self.intermediate_buffer_handle = 0
        """Always 0 (v2; aneforge docs, dispatch backends)."""
        self.queue_depth = program.target.limits.integer("in_flight_requests")
        self.pending = 0
        """Executions that were asked for and did not run yet."""

    def check_room(self, operation: str) -> None:
        """Check that the queue takes one more execution.

        Raises:
            RuntimeStateError: It is full.
        """
        if self.pending >= self.queue_depth:
            raise RuntimeStateError(
                "the queue of the program is full",
                operation=f"{operation} ({SIMULATED})",
                seen=self.pending + 1,
                limit=self.queue_depth,
                remedy="run the chains first: run_chains(...)",
            )

    def process_request(
        self, request: ANERequest, model: ANEInMemoryModel, qos: int = DEFAULT_QUALITY, *, simulate: bool = False
    ) -> bool:
        """Evaluate once through the program of a model; the answer and the bits are those of the model's own.

        Raises:
            GraphTypeError: It is not a request, or not an in-memory model.
            GraphError: The program is another model's, the quality of service is not a known level, or a surface is
                too small or missing.
            UnknownNameError: There is no such input or output.
            RuntimeStateError: The model is not loaded.
            BackendUnavailableError: It was not asked to simulate.
        """
        if check_instance(model, ANEInMemoryModel, "the model of a program").program is not self:
            raise GraphError("the program must be the model's own", operation="processRequest", remedy="model.program")
        return model.evaluate(request, qos, simulate=simulate)

    def __str__(self) -> str:
        said = f"{SIMULATED} " if self.simulated else ""
        return (
            f"{said}_ANEProgramForEvaluation: {{ programHandle={self.program_handle} "
            f"intermediateBufferHandle={self.intermediate_buffer_handle} queueDepth={self.queue_depth} }}"
        )


@name_as_studied("_ANEInMemoryModelDescriptor")
@dataclass(frozen=True, slots=True)
class ANEInMemoryModelDescriptor:
    """`_ANEInMemoryModelDescriptor`: what an in-memory model is made of. Here it is a program, as compiled from MIL.

    >>> import aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> ANEInMemoryModel(ANEInMemoryModelDescriptor(program)).state.number
    1

    Raises:
        GraphTypeError: It is not a program.
    """

    program: Program

    def __post_init__(self) -> None:
        check_instance(
            self.program, Program, "what a descriptor describes", "af.build_program(graph, target) makes one"
        )


@name_as_studied("_ANEInMemoryModel")
class ANEInMemoryModel:
    """`_ANEInMemoryModel`: compiled from MIL, loaded, evaluated. Without UUID and symbols, it cannot be chained.

    >>> import numpy as np, aneforge as af
    >>> from aneforge.runtime.chaining import ANEIOSurfaceObject, IOSurface
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> model = ANEInMemoryModel(ANEInMemoryModelDescriptor(program))
    >>> model.compile(); model.load()
    >>> x, y = IOSurface(4), IOSurface(4)
    >>> request = ANERequest([ANEIOSurfaceObject(x)], [0], [ANEIOSurfaceObject(y)], [0])
    >>> model.evaluate(request, simulate=True), y.read(np.float16, (1, 2)).tolist(), model.state.number
    (True, [[1.0, 1.0]], 3)
    >>> model.unload()

    Raises:
        GraphTypeError: It is not a descriptor.
    """

    def __init__(self, descriptor: ANEInMemoryModelDescriptor) -> None:
        self.descriptor = check_instance(descriptor, ANEInMemoryModelDescriptor, "the descriptor of a model")
        self.hex_string_identifier = identifier_of(descriptor.program)
        self.state = ModelState.CREATED
        self.program: ANEProgramForEvaluation | None = None
        self.perf_stats_mask = 0
        """Every mask was accepted, and none had an effect (v2)."""
        self._loaded: LoadedProgram | None = None

    @property
    def program_handle(self) -> int:
        """The handle of the program; 0 until it is loaded."""
        return 0 if self.program is None else self.program.program_handle

    def compile(self, qos: int = DEFAULT_QUALITY) -> None:
        """Compile; the program is compiled already here.

        Raises:
            GraphError: The quality of service is not a known level.
            RuntimeStateError: It was compiled before.
        """
        check_quality(qos)
        self._expect("compile", ModelState.CREATED)
        self.state = ModelState.COMPILED

    def load(self, qos: int = DEFAULT_QUALITY) -> None:
        """Load onto the software engine.

        Raises:
            GraphError: The quality of service is not a known level.
            RuntimeStateError: It was not compiled, or as many programs are loaded as a process can load.
        """
        check_quality(qos)
        self._expect("load", ModelState.COMPILED)
        self._loaded = load_program(self.descriptor.program)
        self.program = ANEProgramForEvaluation(self.descriptor.program)
        self.state = ModelState.LOADED

    def evaluate(self, request: ANERequest, qos: int = DEFAULT_QUALITY, *, simulate: bool = False) -> bool:
        """Evaluate once on the software engine: read the surfaces of the inputs, write those of the outputs.

        Raises:
            GraphTypeError: It is not a request.
            GraphError: The quality of service is not a known level, or a surface is too small or missing.
            UnknownNameError: There is no such input, output or procedure.
            RuntimeStateError: The model is not loaded.
            BackendUnavailableError: It was not asked to simulate.
        """
        check_instance(request, ANERequest, "a request")
        check_quality(qos)
        check_simulated("evaluate", simulate=simulate)
        with simulating("evaluate"):
            self._evaluate(request)
        return True

    def _evaluate(self, request: ANERequest) -> None:
        loaded = self._usable("evaluate")
        if request.procedure_index:
            raise UnknownNameError(f"there is no procedure {request.procedure_index}; an in-memory model has 1, from 0")
        table = SymbolTable.of(loaded)
        given = {index: one.surface for index, one in zip(request.input_indices, request.inputs, strict=True)}
        written = {index: one.surface for index, one in zip(request.output_indices, request.outputs, strict=True)}
        check_covered(table, given)
        for direction, surfaces in ((Direction.INPUT, given), (Direction.OUTPUT, written)):
            for index, surface in surfaces.items():
                check_surface(table.symbol(direction, index), surface)
        values = [given[index].read(port.buffer.dtype, port.type.shape) for index, port in enumerate(table.inputs)]
        found = loaded.eval(*values)
        for index, surface in written.items():
            surface.write(found[table.outputs[index].name])

    def unload(self, qos: int = DEFAULT_QUALITY) -> None:
        """Give the program back.

        Raises:
            GraphError: The quality of service is not a known level.
            RuntimeStateError: It is not loaded.
        """
        check_quality(qos)
        self._usable("unload").release()
        self._loaded, self.state = None, ModelState.UNLOADED

    def _expect(self, action: str, state: ModelState) -> None:
        if self.state is not state:
            raise self._misused(action, state)

    def _usable(self, action: str) -> LoadedProgram:
        if self._loaded is None:
            raise self._misused(action, ModelState.LOADED)
        return self._loaded

    def _misused(self, action: str, state: ModelState) -> RuntimeStateError:
        return RuntimeStateError(
            f"the in-memory model must be {state}", operation=action, seen=str(self.state), remedy="make a new model"
        )

    def __repr__(self) -> str:
        return f"<_ANEInMemoryModel {self.hex_string_identifier[:12]}, {self.state}>"


@name_as_studied("_ANEModel")
class ANEModel:
    """`_ANEModel`: a compiled model on disk. Of a MIL-compiled folder it is a shell: its symbol table is empty.

    >>> shell = ANEModel.model_at_url("model_folder", key="0123abcd")
    >>> shell.state.number, shell.program, shell.input_symbol_indices_for_procedure_index(0)
    (1, None, ())
    """

    def __init__(self, url: str, key: str, procedures: tuple[LoadedProgram, ...] = ()) -> None:
        self.url = url
        self.key = key
        self.state = ModelState.CREATED
        self.program: ANEProgramForEvaluation | None = None
        self.program_handle = 0
        self.mapper = None
        """Nil, each time (experiment N)."""
        self.model_attributes: Mapping[str, object] = {}
        """Empty, each time (experiment O)."""
        self._procedures = procedures
        shared = {id(loaded): ANEProgramForEvaluation(loaded.program, simulated=True) for loaded in procedures}
        self._programs = tuple(shared[id(loaded)] for loaded in procedures)
        self.guard = threading.RLock()
        """Held while a chain of the model, or the model, changes: chains share the queues of its programs."""
        self.runs = 0
        """How many chains of it run at the moment."""

    @classmethod
    def model_at_url(cls, url: str, key: str) -> Self:
        """Return the model of a folder, a shell until handle and program are set; the key is its hexStringIdentifier.

        Raises:
            GraphTypeError: Address or key is not text.
            GraphError: The key is empty.
        """
        check_instance(url, str, "the address of a model")
        if not check_instance(key, str, "the key of a model"):
            raise GraphError("a model needs a key", remedy="give the hexStringIdentifier of the in-memory model")
        return cls(url, key)

    @classmethod
    def with_symbol_table(cls, programs: Sequence[Program], *, simulate: bool = False) -> Self:
        """Return a simulated model with a symbol table: one procedure for each program, its ports are the symbols.

        A program that is given twice is loaded once, and has one queue.

        >>> import aneforge as af
        >>> step = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
        >>> with ANEModel.with_symbol_table([step, step], simulate=True) as model:
        ...     print(model)
        simulated _ANEModel of 2 procedures, created

        Raises:
            GraphTypeError: The programs are not a list of programs.
            GraphError: There is no program.
            BackendUnavailableError: It was not asked to simulate: no process was seen to have such a model.
            RuntimeStateError: As many programs are loaded as a process can load.
        """
        check_simulated("with_symbol_table", simulate=simulate)
        listed = check_items(programs, Program, "programs")
        if not listed:
            raise GraphError("a model needs a program", operation="with_symbol_table")
        loaded: dict[int, LoadedProgram] = {}
        for program in listed:
            if id(program) not in loaded:
                loaded[id(program)] = load_program(program)
        key = hashlib.sha256("".join(map(identifier_of, listed)).encode()).hexdigest()
        return cls(SIMULATED, key, tuple(loaded[id(program)] for program in listed))

    @property
    def simulated(self) -> bool:
        """True where it has a symbol table, which only a simulated model has."""
        return bool(self._procedures)

    @property
    def procedures(self) -> int:
        """How many procedures are known."""
        return len(self._procedures)

    def get_uuid(self) -> uuid.UUID:
        """Return the UUID, which in-memory models do not have."""
        return uuid.uuid5(uuid.NAMESPACE_OID, self.key)

    def set_program_handle(self, handle: int) -> None:
        """Take over the handle of an in-memory model.

        Raises:
            GraphTypeError: It is not an integer.
            GraphError: It does not fit.
        """
        self.program_handle = check_integer(handle, "a program handle")

    def set_program(self, program: ANEProgramForEvaluation) -> None:
        """Take over the program of an in-memory model. The symbol table stays empty (experiment E).

        Raises:
            GraphTypeError: It is not a program.
        """
        self.program = check_instance(
            program, ANEProgramForEvaluation, "the program of a model", "model.program is one"
        )

    def symbol_table(self, procedure: int) -> SymbolTable:
        """Return the symbols of a procedure; none of a model that is not simulated.

        Raises:
            UnknownNameError: A simulated model has no such procedure.
            RuntimeStateError: The model was released.
        """
        return SymbolTable.of(self.loaded(procedure)) if self.simulated else SymbolTable()

    def input_symbol_indices_for_procedure_index(self, procedure: int) -> tuple[int, ...]:
        """Return the indices of input symbols; none of a model that is not simulated.

        Raises:
            UnknownNameError: A simulated model has no such procedure.
            RuntimeStateError: The model was released.
        """
        return tuple(range(len(self.symbol_table(procedure).inputs)))

    def output_symbol_indices_for_procedure_index(self, procedure: int) -> tuple[int, ...]:
        """Return the indices of output symbols; none of a model that is not simulated.

        Raises:
            UnknownNameError: A simulated model has no such procedure.
            RuntimeStateError: The model was released.
        """
        return tuple(range(len(self.symbol_table(procedure).outputs)))

    def procedure_info_for_procedure_index(self, procedure: int) -> SymbolTable | None:
        """Return nil, as each time (experiment O); the symbols of a simulated model.

        Raises:
            UnknownNameError: A simulated model has no such procedure.
            RuntimeStateError: The model was released.
        """
        return self.symbol_table(procedure) if self.simulated else None

    def loaded(self, procedure: int) -> LoadedProgram:
        """Return the program of a procedure of a simulated model, ready to run.

        Raises:
            UnknownNameError: There is no such procedure.
            RuntimeStateError: The model was released.
        """
        self.check_usable("use a model")
        return self._procedures[self._place(procedure)]

    def queue(self, procedure: int) -> ANEProgramForEvaluation:
        """Return the program of a procedure of a simulated model, with its queue.

        Raises:
            UnknownNameError: There is no such procedure.
        """
        return self._programs[self._place(procedure)]

    def check_usable(self, action: str) -> None:
        """Check that the model was not released.

        Raises:
            RuntimeStateError: It was.
        """
        if self.state is ModelState.UNLOADED:
            raise RuntimeStateError(
                "the model was released",
                operation=f"{action} ({SIMULATED})",
                remedy="release it after the last request",
            )

    def release(self) -> None:
        """Give the programs of a simulated model back; a second time does nothing.

        Raises:
            RuntimeStateError: One of its chains runs, in another thread.
        """
        with self.guard:
            if self.runs:
                raise running_error("a chain of the model", "release")
            for loaded in self._procedures:
                loaded.release()
            if self.simulated:
                self.state = ModelState.UNLOADED

    def _place(self, procedure: int) -> int:
        check_integer(procedure, "a procedure index", bits=32)
        if procedure >= self.procedures:
            raise UnknownNameError(f"there is no procedure {procedure}; the model has {self.procedures}, from 0")
        return procedure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        if self.simulated:
            return f"{SIMULATED} _ANEModel of {self.procedures} procedures, {self.state}"
        return f"_ANEModel: {{ modelURL={self.url} ; key={self.key} ; state={self.state.number} }}"


def running_error(what: str, action: str) -> RuntimeStateError:
    """Return the error for a release of something that runs."""
    return RuntimeStateError(
        f"{what} runs in another thread", operation=f"{action} ({SIMULATED})", remedy="wait until run_chains returns"
    )


def check_simulated(operation: str, *, simulate: bool) -> None:
    """Check that a caller asked for the simulation: nothing else runs here.

    Raises:
        BackendUnavailableError: It did not.
    """
    if simulate is not True:
        raise BackendUnavailableError(
            f"the chaining model reaches no engine; chaining itself needs the entitlement {ENTITLEMENT}, which no "
            "third-party process is given",
            operation=operation,
            remedy="simulate=True runs it on the software engine; af.compile with a backend evaluates on the engine",
        )


def check_covered(table: SymbolTable, given: Mapping[int, IOSurface]) -> None:
    """Check that every input has a surface.

    Raises:
        GraphError: One has none.
    """
    missing = [f"{index} ({port.name})" for index, port in enumerate(table.inputs) if index not in given]
    if missing:
        raise GraphError(f"no surface for input symbol {', '.join(missing)}", remedy="give every input a surface")


def check_surface(port: Port, surface: IOSurface) -> None:
    """Check that a surface holds a symbol.

    Raises:
        GraphError: It is too small.
    """
    if surface.nbytes < port.buffer.nbytes:
        raise GraphError(f"{surface} is too small for {port}", seen=surface.nbytes, limit=port.buffer.nbytes)


def load_program(program: Program) -> LoadedProgram:
    """Return a program on the software engine."""
    return LoadedProgram(program, SoftwareEngine(program))


def identifier_of(program: Program) -> str:
    """Return the identifier of a program: the same for the same layers and weights."""
    return hashlib.sha256(str(program).encode()).hexdigest()


def handle_of(program: Program) -> int:
    """Return the handle of a program, which is never 0."""
    return int(identifier_of(program)[:15], 16) | 1
