"""`_ANEProgramIOSurfacesMapper`: surfaces of a request in the slots of a program's symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError, UnknownNameError
from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_instance, check_integer
from aneforge.runtime.chaining.chain_models import ANEInMemoryModel, ANEModel, check_surface
from aneforge.runtime.chaining.chaining_request import ANERequest
from aneforge.runtime.chaining.chaining_study import SIMULATED, failure, name_as_studied
from aneforge.runtime.ports import Direction

if TYPE_CHECKING:
    from aneforge.runtime.chaining.surfaces import IOSurface

__all__ = ["MAPPING_SLOTS", "ANEProgramIOSurfacesMapper", "MappedSurface"]

MAPPING_SLOTS = 128
"""Slots for buffers of ANEMemoryMappingParamsStruct (experiment N)."""


@dataclass(frozen=True, slots=True)
class MappedSurface:
    """A slot in use."""

    surface: IOSurface
    direction: Direction
    symbol_index: int

    def __str__(self) -> str:
        return f"{SIMULATED}: {self.direction} symbol {self.symbol_index}: {self.surface.name}"


@name_as_studied("_ANEProgramIOSurfacesMapper")
class ANEProgramIOSurfacesMapper:
    """`_ANEProgramIOSurfacesMapper`: made from a program handle; it maps nothing but a simulated model.

    >>> from aneforge.runtime.chaining import ANEIOSurfaceObject, IOSurface
    >>> import aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> model = ANEModel.with_symbol_table([program], simulate=True)
    >>> x, y = ANEIOSurfaceObject(IOSurface(4, name="x")), ANEIOSurfaceObject(IOSurface(4, name="y"))
    >>> mapper = ANEProgramIOSurfacesMapper(1)
    >>> mapper.map_io_surfaces(model, ANERequest([x], [0], [y], [0]))
    True
    >>> print(*mapper.slots, sep="; ")
    simulated: input symbol 0: x; simulated: output symbol 0: y

    Raises:
        GraphTypeError: The handle is not an integer.
    """

    def __init__(self, program_handle: int) -> None:
        self.program_handle = check_integer(program_handle, "a program handle")
        self.slots: tuple[MappedSurface, ...] = ()
        """What the last request that was mapped fills."""

    def map_io_surfaces(self, model: ANEModel | ANEInMemoryModel, request: ANERequest) -> bool:
        """Map the surfaces of a request; NO without a symbol table, and where the request does not fit it.

        Raises:
            ChainingError: The model is in memory: it has no symbol indices.
            GraphTypeError: It is neither of the two models, or not a request.
            RuntimeStateError: The model was released.
        """
        if not self.validate_request(request, model):
            return False
        self.slots = slots_of(request)
        return True

    def validate_request(self, request: ANERequest, model: ANEModel | ANEInMemoryModel) -> bool:
        """Return whether the surfaces of a request can be mapped.

        Raises:
            ChainingError: The model is in memory: it has no symbol indices.
            GraphTypeError: It is neither of the two models, or not a request.
            RuntimeStateError: The model was released.
        """
        check_instance(request, ANERequest, "a request")
        if isinstance(model, ANEInMemoryModel):
            raise failure("no_symbol_indices", "mapIOSurfacesWithModel")
        check_instance(model, ANEModel, "a model")
        if not model.simulated:
            return False  # as in experiment N: no exception and no error
        try:
            table = model.symbol_table(request.procedure_index)
            for slot in slots_of(request):
                check_surface(table.symbol(slot.direction, slot.symbol_index), slot.surface)
        except (GraphError, UnknownNameError):
            return False
        return len(slots_of(request)) <= MAPPING_SLOTS

    def __repr__(self) -> str:
        mapped = f", {', '.join(map(str, self.slots))}" if self.slots else ""
        return f"<_ANEProgramIOSurfacesMapper of program {self.program_handle}{mapped}>"


def slots_of(request: ANERequest) -> tuple[MappedSurface, ...]:
    """Return the slots that a request needs."""
    sides = (
        (Direction.INPUT, request.inputs, request.input_indices),
        (Direction.OUTPUT, request.outputs, request.output_indices),
    )
    return tuple(
        MappedSurface(one.surface, direction, index)
        for direction, objects, places in sides
        for one, index in zip(objects, places, strict=True)
    )
