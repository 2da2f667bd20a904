"""The Neural Engine through _ANEInMemoryModel (Path A), by messages of the Objective-C runtime; no compiler is needed.

Source: aneforge docs, dispatch backends, and what its invokers do. A descriptor of MIL text (or of a network
description) and its weights becomes a model; the files are written to the model's own folder; it is compiled and
loaded; its attributes give every port's strides; ports are IOSurfaces, which a request maps; evaluation runs the
request. The route is synchronous: it has no events.

Element (b, c, d, h, w) of a port is at b·BatchStride + d·DepthStride + c·PlaneStride + h·RowStride + 2·w, and values
cross in the order b, c, d, h, w. A view is the surface's own memory; where rows are padded, it has the strides of the
surface.
"""

from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from aneforge.errors import NotSupportedError, RuntimeStateError, UnknownNameError
from aneforge.records import dataclass
from aneforge.runtime.devices import ENGINE_MASK, another_device
from aneforge.runtime.dispatch.native_calls import Signature, as_bytes, bind_functions, load_library
from aneforge.runtime.dispatch.objc import ObjectiveC, ObjectiveCError
from aneforge.runtime.dispatch.surface_layouts import Layout
from aneforge.runtime.ports import Direction

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.types import Array
    from aneforge.runtime.devices import DevicePort, DeviceProgram, PortKey

__all__ = ["Frameworks", "InMemoryModelDevice", "InMemoryProgram"]

QOS = 33
NO_OPTIONS = -2
NETWORK_DESCRIPTION, MIL_TEXT = "net.plist", "model.mil"
MIL_WEIGHTS = "@model_path/weights.bin"
"""What the MIL text calls its weights file."""
SYNCHRONOUS = "_ANEInMemoryModel evaluates synchronously and has no events"

P = ctypes.c_void_p
SURFACE_FUNCTIONS = {
    "IOSurfaceCreate": Signature(P, (P,)),
    "IOSurfaceGetBaseAddress": Signature(P, (P,)),
    "IOSurfaceLock": Signature(ctypes.c_int, (P, ctypes.c_uint32, P)),
    "IOSurfaceUnlock": Signature(ctypes.c_int, (P, ctypes.c_uint32, P)),
}
RELEASE_FUNCTION = {"CFRelease": Signature(None, (P,))}


@dataclass(frozen=True, slots=True)
class Frameworks:
    """Where the runtime and the frameworks are."""

    objc: str = "/usr/lib/libobjc.A.dylib"
    foundation: str = "/System/Library/Frameworks/Foundation.framework/Foundation"
    engine: str = "/System/Library/PrivateFrameworks/AppleNeuralEngine.framework/AppleNeuralEngine"
    surface: str = "/System/Library/Frameworks/IOSurface.framework/IOSurface"
    core_foundation: str = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"


@dataclass(frozen=True)
class InMemoryModelDevice:
    """The Neural Engine through _ANEInMemoryModel."""

    frameworks: Frameworks = field(default_factory=Frameworks)

    @property
    def operation_ports(self) -> int | None:
        """How many inputs, and how many outputs, an added operation has: any number."""
        return None

    @property
    def lends_buffers(self) -> bool:
        """True: a surface is part of any request."""
        return True

    @property
    def is_silicon(self) -> bool:
        """True: the numbers are the chip's own."""
        return True

    @cached_property
    def objc(self) -> ObjectiveC:
        """The Objective-C runtime."""
        found = ObjectiveC(self.frameworks.objc, [self.frameworks.foundation, self.frameworks.engine])
        for name in ("_ANEInMemoryModelDescriptor", "_ANEInMemoryModel", "_ANEIOSurfaceObject", "_ANERequest"):
            found.get_class(name)
        return found

    @cached_property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions of surfaces."""
        surface, core = self.frameworks.surface, self.frameworks.core_foundation
        return bind_functions(load_library(surface), surface, SURFACE_FUNCTIONS) | bind_functions(
            load_library(core), core, RELEASE_FUNCTION
        )

    def obstacle(self) -> str | None:
        """Return why the framework cannot be used here."""
        if self.frameworks == Frameworks() and sys.platform != "darwin":
            return f"AppleNeuralEngine.framework is part of macOS, and this is {sys.platform}"
        try:
            _ = self.objc, self.functions  # loads and binds
        except RuntimeStateError as error:
            return str(error)
        return None

    def compile(
        self,
        mil: Path,
        inputs: tuple[DevicePort, ...],
        outputs: tuple[DevicePort, ...],
        *,
        mask: int = ENGINE_MASK,
        cache: Path | None = None,
        target: str | None = None,
    ) -> InMemoryProgram:
        """Compile and load MIL text, or a network description (.plist) with the weights files next to it.

        Raises:
            NotSupportedError: The mask has other devices.
            RuntimeStateError: The framework refused a step; the message is its own.
        """
        del cache, target  # the model has a folder of its own, and compiles for the chip that it is on
        if mask != ENGINE_MASK:
            raise NotSupportedError("_ANEInMemoryModel runs only on the Neural Engine", seen=mask, limit=ENGINE_MASK)
        program = InMemoryProgram(self)
        program.add_operation(mil, inputs, outputs)
        return program

    def compile_check(
        self, mil: Path, *, options: str | None = None, mask: int = ENGINE_MASK, cache: Path | None = None
    ) -> int:
        """Return 0 where the program compiles, -2 for options, which do not exist here, else the framework's code."""
        del mask, cache
        if options is not None:
            return NO_OPTIONS
        try:
            LoadedModel.of(self, mil).unload()
        except ObjectiveCError as error:
            return error.code
        return 0


@dataclass(eq=False)
class Surface:
    """A surface with a port on it."""

    device: InMemoryModelDevice
    layout: Layout
    reference: int
    wrapped: int
    """The object of the framework over it."""
    programs: int = 1
    """How many programs have ports on it; the last one releases it."""

    @classmethod
    def of(cls, device: InMemoryModelDevice, layout: Layout) -> Surface:
        """Make a surface of zeros.

        Raises:
            RuntimeStateError: The system made none.
        """
        objc, size = device.objc, layout.nbytes
        wanted = {"Width": size, "Height": 1, "BytesPerElement": 1, "BytesPerRow": size, "AllocSize": size}
        properties = {f"IOSurface{name}": objc.number(value) for name, value in wanted.items()}
        properties["IOSurfacePixelFormat"] = objc.number(0)
        reference = device.functions["IOSurfaceCreate"](objc.dictionary(properties))
        if not reference:
            raise RuntimeStateError(f"no surface of {size:,} bytes for {layout.symbol!r}", operation="IOSurfaceCreate")
        wrapped = objc.send("_ANEIOSurfaceObject", "objectWithIOSurface:", reference)
        made = cls(device, layout, reference, objc.retain(wrapped))
        made.memory[:] = 0
        return made

    @property
    def memory(self) -> Array:
        """All bytes of the surface."""
        return as_bytes(self.device.functions["IOSurfaceGetBaseAddress"](self.reference), self.layout.nbytes)

    @property
    def elements(self) -> Array:
        """The port's elements, in the order in which values cross."""
        return np.ndarray(self.layout.extents, np.float16, self.memory, 0, self.layout.strides)

    def view(self) -> Array:
        """Return the bytes of the port where they are, in the order in which values cross: rows in the last axis."""
        memory, (*extents, width) = self.memory, self.layout.extents
        if self.layout.dense:
            return as_bytes(memory.ctypes.data, 2 * math.prod(self.layout.extents))
        return as_strided(memory, (*extents, 2 * width), (*self.layout.strides[:-1], 1))

    def write(self, data: Array) -> None:
        """Copy dense bytes to the port; fewer than it has leave the rest as it was.

        Raises:
            RuntimeStateError: There are more than it has.
        """
        held = self.dense_copy()
        given = data.reshape(-1).view(np.uint8)
        if given.size > held.size:
            raise RuntimeStateError(
                f"more bytes than input {self.layout.symbol!r} has", seen=given.size, limit=held.size
            )
        held[: given.size] = given
        self.pack(held)

    def read(self, into: Array) -> None:
        """Copy the port to dense bytes, as many as there are at most."""
        taken, held = into.reshape(-1).view(np.uint8), self.dense_copy()
        count = min(taken.size, held.size)
        taken[:count] = held[:count]

    def dense_copy(self) -> Array:
        """Return a copy of the port's bytes."""
        self.lock("IOSurfaceLock")
        found = np.ascontiguousarray(self.elements).reshape(-1).view(np.uint8).copy()
        self.lock("IOSurfaceUnlock")
        return found

    def pack(self, data: Array) -> None:
        """Copy dense bytes onto the surface."""
        self.lock("IOSurfaceLock")
        self.elements[...] = data.view(np.float16).reshape(self.layout.extents)
        self.lock("IOSurfaceUnlock")

    def lock(self, function: str) -> None:
        """Lock or unlock the surface for the CPU."""
        self.device.functions[function](self.reference, 0, None)

    def release(self) -> None:
        """Give the surface back, once the last program does."""
        self.programs -= 1
        if self.programs:
            return
        self.device.objc.release(self.wrapped)
        self.device.functions["CFRelease"](self.reference)


@dataclass(eq=False)
class LoadedModel:
    """A model that the framework compiled and loaded."""

    device: InMemoryModelDevice
    model: int
    files: list[Path]
    """What was written to its folder."""

    @classmethod
    def of(cls, device: InMemoryModelDevice, source: Path) -> LoadedModel:
        """Compile and load MIL text, or a network description.

        Raises:
            ObjectiveCError: The framework refused a step.
        """
        objc = device.objc
        with objc.pool():
            descriptor, files = describe(objc, source)
            model = objc.send("_ANEInMemoryModel", "inMemoryModelWithDescriptor:", descriptor) if descriptor else 0
            if not model:
                raise ObjectiveCError(f"no model of {source}", operation="inMemoryModelWithDescriptor:", code=-1)
            made = cls(device, objc.retain(model), [])
            try:
                made.write_files(files)
                options = objc.dictionary({})
                objc.attempt(made.model, "compileWithQoS:options:error:", ctypes.c_uint(QOS), options)
                objc.attempt(made.model, "loadWithQoS:options:error:", ctypes.c_uint(QOS), options)
            except BaseException:
                made.forget()
                raise
        return made

    def write_files(self, files: dict[str, bytes]) -> None:
        """Write the program and its weights to the model's own folder."""
        folder = Path(self.device.objc.read_text(self.device.objc.send(self.model, "localModelPath")))
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            self.files.append(path)

    def layouts(self, which: str, ports: tuple[DevicePort, ...]) -> list[Layout]:
        """Return where the elements of live inputs or outputs are, in order.

        Inferred: where the model has no such list, its ports are without gaps, in the order of the program.
        """
        objc = self.device.objc
        attributes = objc.send(self.model, "modelAttributes")
        statuses = objc.value(attributes, "NetworkStatusList") if attributes else None
        listed = objc.value(objc.items(statuses)[0], which) if statuses else None
        if listed:
            return [layout_of(objc, entry) for entry in objc.items(listed)]
        return [Layout.without_gaps(port.name, (1, 1, 1, 1, port.nbytes // 2)) for port in ports]

    def unload(self) -> None:
        """Unload the model and forget it."""
        try:
            with self.device.objc.pool():
                self.device.objc.attempt(self.model, "unloadWithQoS:error:", ctypes.c_uint(QOS))
        finally:
            self.forget()

    def forget(self) -> None:
        """Remove what was written for the model, and give it back."""
        for path in self.files:
            path.unlink(missing_ok=True)
        self.device.objc.release(self.model)


@dataclass(eq=False)
class InMemoryOperation:
    """A loaded model with surfaces for its ports, and the request that maps them."""

    loaded: LoadedModel
    order: dict[Direction, list[str]]
    """Ports in the order of the model's live ones."""
    own: list[Surface] = field(default_factory=list[Surface])
    """Those that were made for it, or that another program lent."""
    surfaces: dict[tuple[Direction, str], Surface] = field(default_factory=dict[tuple[Direction, str], Surface])
    """The surface of each port, which may be another operation's."""
    request: int = 0

    @classmethod
    def of(cls, loaded: LoadedModel, ports: dict[Direction, tuple[DevicePort, ...]]) -> InMemoryOperation:
        """Give every port a surface.

        Raises:
            UnknownNameError: The model has no such port.
            NotSupportedError: A port holds something other than fp16 numbers.
        """
        made = cls(loaded, {})
        try:
            with loaded.device.objc.pool():
                for direction, which in (
                    (Direction.INPUT, "LiveInputList"),
                    (Direction.OUTPUT, "LiveOutputList"),
                ):
                    layouts = {layout.symbol: layout for layout in loaded.layouts(which, ports[direction])}
                    made.order[direction] = list(layouts)
                    for port in ports[direction]:
                        surface = Surface.of(loaded.device, check(port, direction, layouts))
                        made.own.append(surface)
                        made.surfaces[direction, port.name] = surface
        except BaseException:
            made.release()
            raise
        return made

    def surface(self, direction: Direction, port: str) -> Surface:
        """Return the surface of a port.

        Raises:
            UnknownNameError: There is no such port.
        """
        if (direction, port) not in self.surfaces:
            raise UnknownNameError.of(str(direction), port, self.order[direction])
        return self.surfaces[direction, port]

    def take(self, port: PortKey, given: Surface) -> None:
        """Let a port be on another port's surface.

        Raises:
            UnknownNameError: There is no such port.
            RuntimeStateError: The two ports have different layouts on their surfaces.
        """
        taken = self.surface(*port)
        if given.layout.strides != taken.layout.strides:
            raise RuntimeStateError(
                f"{given.layout.symbol!r} and {port[0]} {port[1]!r} have different layouts on their surfaces",
                seen=taken.layout.strides,
                limit=given.layout.strides,
            )
        self.surfaces[port] = given

    def map_surfaces(self) -> None:
        """Make the request of the surfaces and map it, once."""
        if self.request:
            return
        objc = self.loaded.device.objc
        parts: list[int] = []
        for direction in (Direction.INPUT, Direction.OUTPUT):
            names = self.order[direction]
            parts.append(objc.array([self.surface(direction, name).wrapped for name in names]))
            parts.append(objc.array([objc.number(index) for index in range(len(names))]))
        request = objc.send(
            "_ANERequest",
            "requestWithInputs:inputIndices:outputs:outputIndices:procedureIndex:",
            *parts,
            objc.number(0),
        )
        selector = "mapIOSurfacesWithRequest:cacheInference:error:"
        objc.attempt(self.loaded.model, selector, request, ctypes.c_bool(True))  # noqa: FBT003 - an argument of C
        self.request = objc.retain(request)

    def run(self) -> None:
        """Evaluate once."""
        objc = self.loaded.device.objc
        with objc.pool():
            self.map_surfaces()
            objc.attempt(
                self.loaded.model,
                "evaluateWithQoS:options:request:error:",
                ctypes.c_uint(QOS),
                objc.dictionary({}),
                self.request,
            )

    def release(self) -> None:
        """Unmap, unload, and give everything back."""
        objc = self.loaded.device.objc
        if self.request:
            objc.call(None, self.loaded.model, "unmapIOSurfacesWithRequest:", self.request)
            objc.release(self.request)
        self.loaded.unload()
        for surface in self.own:
            surface.release()


@dataclass(eq=False)
class InMemoryProgram:
    """Models that run one after the other."""

    device: InMemoryModelDevice
    operations: list[InMemoryOperation] = field(default_factory=list[InMemoryOperation])
    executed: bool = False

    def set_input(self, port: str, data: Array, operation: int = 0) -> None:
        """Copy values into an input port."""
        self.operation(operation).surface(Direction.INPUT, port).write(data)

    def get_output(self, port: str, into: Array, operation: int = 0) -> None:
        """Copy an output port into an array."""
        self.operation(operation).surface(Direction.OUTPUT, port).read(into)

    def input_view(self, port: str) -> Array:
        """Return an input port of the first operation as bytes that stay."""
        return self.operation(0).surface(Direction.INPUT, port).view()

    def output_view(self, port: str) -> Array:
        """Return an output port of the first operation as bytes that stay."""
        return self.operation(0).surface(Direction.OUTPUT, port).view()

    def share_buffer(self, source: int, output: str, sink: int, to_input: str) -> None:
        """Give an input of one operation the surface of an output of another.

        Raises:
            RuntimeStateError: It ran already, or the two ports have different layouts on their surfaces.
        """
        given = self.operation(source).surface(Direction.OUTPUT, output)
        if self.executed:
            raise RuntimeStateError("surfaces are shared before the first execution", operation="share_buffer")
        self.operation(sink).take((Direction.INPUT, to_input), given)

    def lend_buffer(self, source: PortKey, to: DeviceProgram, sink: PortKey, operation: int = 0) -> None:
        """Give a port of an operation of another program the surface of a port of this one's first.

        Raises:
            NotSupportedError: The other program is another device's.
            RuntimeStateError: The other program ran already, or the two ports have different layouts on their surfaces.
        """
        if not isinstance(to, InMemoryProgram) or to.device != self.device:
            raise another_device(to)
        if to.executed:
            raise RuntimeStateError("a program takes surfaces before its first execution", operation="lend_buffer")
        given, taker = self.operation(0).surface(*source), to.operation(operation)
        taker.take(sink, given)
        taker.own.append(given)
        given.programs += 1

    def execute(self) -> None:
        """Run the first operation once."""
        self.executed = True
        self.operation(0).run()

    def add_operation(self, mil: Path, inputs: tuple[DevicePort, ...], outputs: tuple[DevicePort, ...]) -> int:
        """Compile another model, and return the number of its operation."""
        loaded = LoadedModel.of(self.device, mil)
        self.operations.append(InMemoryOperation.of(loaded, {Direction.INPUT: inputs, Direction.OUTPUT: outputs}))
        return len(self.operations) - 1

    def operation(self, number: int) -> InMemoryOperation:
        """Return an operation by its number.

        Raises:
            RuntimeStateError: There is no such operation, or the program was released.
        """
        if not 0 <= number < len(self.operations):
            raise RuntimeStateError("there is no such operation", seen=number, limit=len(self.operations))
        return self.operations[number]

    def operation_count(self) -> int:
        """Return how many operations there are."""
        return len(self.operations)

    def execute_multi(self) -> None:
        """Run every operation once, in order."""
        self.operation(0)
        self.executed = True
        for operation in self.operations:
            operation.run()

    def chain(self, source: int, sink: int, event: str) -> None:
        """Refuse: there are no events."""
        raise NotSupportedError(SYNCHRONOUS, seen=f"{event}: {source} -> {sink}", remedy="use e5rt")

    def event_value(self, operation: int) -> int:
        """Refuse: there are no events."""
        raise NotSupportedError(SYNCHRONOUS, seen=operation, remedy="use e5rt")

    def chain_event_value(self, sink: int) -> int:
        """Refuse: there are no events."""
        raise NotSupportedError(SYNCHRONOUS, seen=sink, remedy="use e5rt")

    def execute_async(self) -> None:
        """Refuse: evaluation is synchronous."""
        raise NotSupportedError(SYNCHRONOUS, operation="execute_async", remedy="use e5rt")

    def wait_for_completion(self) -> None:
        """Refuse: nothing can be submitted."""
        raise NotSupportedError(SYNCHRONOUS, operation="wait_for_completion", remedy="use e5rt")

    def final_event_values(self) -> tuple[int, int]:
        """Refuse: there are no events."""
        raise NotSupportedError(SYNCHRONOUS, operation="final_event_values", remedy="use e5rt")

    def release(self) -> None:
        """Unload the models; a second time does nothing."""
        operations, self.operations = self.operations, []
        for operation in operations:
            operation.release()


def describe(objc: ObjectiveC, source: Path) -> tuple[int, dict[str, bytes]]:
    """Return the descriptor of a program, and the files that belong into the model's folder."""
    if source.suffix == ".plist":
        selector, main = "modelWithNetworkDescription:weights:optionsPlist:", NETWORK_DESCRIPTION
        named = {path.name: path.read_bytes() for path in sorted(source.parent.glob("weights.*"))}
    else:
        selector, main = "modelWithMILText:weights:optionsPlist:", MIL_TEXT
        weights = source.with_name("weights.bin")
        named = {MIL_WEIGHTS: weights.read_bytes()} if weights.exists() else {}
    text = source.read_bytes()
    entries = {
        name: objc.dictionary({"offset": objc.number(0), "data": objc.data(content)}) for name, content in named.items()
    }
    found = objc.send("_ANEInMemoryModelDescriptor", selector, objc.data(text), objc.dictionary(entries), None)
    return found, {main: text} | {name.removeprefix("@model_path/"): content for name, content in named.items()}


def layout_of(objc: ObjectiveC, entry: int) -> Layout:
    """Return where the elements of a live port are."""

    def number(key: str) -> int:
        held = objc.value(entry, key)
        return objc.read_number(held) if held else 0

    batches, channels, depth, height, width = (
        max(1, number(key)) for key in ("Batches", "Channels", "Depth", "Height", "Width")
    )
    batch, plane, slice_, row = (number(key) for key in ("BatchStride", "PlaneStride", "DepthStride", "RowStride"))
    symbol = objc.read_text(objc.value(entry, "Symbol"))
    return Layout.without_gaps(symbol, (batches, channels, depth, height, width), (batch, plane, slice_, row))


def check(port: DevicePort, direction: Direction, layouts: dict[str, Layout]) -> Layout:
    """Return the layout of a port.

    Raises:
        UnknownNameError: The model has no such port.
        NotSupportedError: The port holds something other than fp16 numbers.
    """
    if port.name not in layouts:
        raise UnknownNameError.of(f"live {direction}", port.name, layouts)
    layout = layouts[port.name]
    if 2 * math.prod(layout.extents) != port.nbytes:
        raise NotSupportedError(
            f"{direction} {port.name!r} must hold only fp16 numbers on its surface",
            seen=f"{port.nbytes} bytes",
            limit=f"{2 * math.prod(layout.extents)} bytes",
            remedy="cast in the graph, or use e5rt",
        )
    return layout
