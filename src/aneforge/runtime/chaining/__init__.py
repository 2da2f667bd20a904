"""Chaining: how the engine could run layer after layer without the host. The request classes of a study, as a model.

`_ANEChainingRequest` and what belongs to it are closed to third parties, and the study that looked at them ended at
Code 15. This room has its classes. A leading underscore is private in Python, so they are spelt without it, and have
the study's exact names as data: `class_named("_ANEBuffer")`, `study_name(ANEBuffer)`; `class_evidence` says which
experiments each rests on. Every call ends as the study saw it end, and says why. In simulation only, a model has
a symbol table, and chains run on the software engine: every output of that says *simulated*.

`chaining_plan` is the planner, which needs none of the classes.
"""

from typing import TYPE_CHECKING

from aneforge.errors import UnknownNameError
from aneforge.runtime.chaining.chain_models import (
    ANEInMemoryModel,
    ANEInMemoryModelDescriptor,
    ANEModel,
    ANEProgramForEvaluation,
    ModelState,
    SymbolTable,
)
from aneforge.runtime.chaining.chaining_request import ANEChainingRequest, ANERequest, Validation
from aneforge.runtime.chaining.chaining_study import class_evidence, class_named, study, study_name
from aneforge.runtime.chaining.client import ANEClient
from aneforge.runtime.chaining.device_classes import (
    ANEDeviceController,
    ANEModelInstanceParameters,
    ANEPerformanceStats,
    ANEQoSMapper,
)
from aneforge.runtime.chaining.prepared_chain import ChainOptions, PreparedChain
from aneforge.runtime.chaining.shared_events import (
    ANEInputBuffersReady,
    ANEOutputSetEnqueue,
    ANESharedEvents,
    ANESharedSignalEvent,
    ANESharedWaitEvent,
)
from aneforge.runtime.chaining.simulation import ChainRun, check_chains, run_chains
from aneforge.runtime.chaining.surfaces import (
    ANEBuffer,
    ANEIOSurfaceObject,
    ANEIOSurfaceOutputSets,
    BufferSource,
    IOSurface,
)
from aneforge.runtime.chaining.surfaces_mapper import ANEProgramIOSurfacesMapper

__all__ = [
    "ANEBuffer",
    "ANEChainingRequest",
    "ANEClient",
    "ANEDeviceController",
    "ANEIOSurfaceObject",
    "ANEIOSurfaceOutputSets",
    "ANEInMemoryModel",
    "ANEInMemoryModelDescriptor",
    "ANEInputBuffersReady",
    "ANEModel",
    "ANEModelInstanceParameters",
    "ANEOutputSetEnqueue",
    "ANEPerformanceStats",
    "ANEProgramForEvaluation",
    "ANEProgramIOSurfacesMapper",
    "ANEQoSMapper",
    "ANERequest",
    "ANESharedEvents",
    "ANESharedSignalEvent",
    "ANESharedWaitEvent",
    "BufferSource",
    "ChainOptions",
    "ChainRun",
    "IOSurface",
    "ModelState",
    "PreparedChain",
    "SymbolTable",
    "Validation",
    "check_chains",
    "class_evidence",
    "class_named",
    "run_chains",
    "study",
    "study_name",
]


if not TYPE_CHECKING:  # a checker would take every misspelt name for a class

    def __getattr__(name: str) -> type:
        """Return a class by the exact name of the study, so that `getattr(chaining, "_ANEBuffer")` finds it."""
        try:
            return class_named(name)
        except UnknownNameError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
