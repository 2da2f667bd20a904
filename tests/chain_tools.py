"""Small programs, surfaces and chains for tests of the simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.runtime.chaining import (
    ANEBuffer,
    ANEChainingRequest,
    ANEClient,
    ANEInputBuffersReady,
    ANEIOSurfaceObject,
    ANEIOSurfaceOutputSets,
    ANEModel,
    ANEOutputSetEnqueue,
    ANESharedSignalEvent,
    ChainOptions,
    IOSurface,
    PreparedChain,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array
    from aneforge.runtime.chaining import ANESharedWaitEvent
    from aneforge.runtime.streams.events import Event

WIDTH = 32
BYTES = 2 * WIDTH
CLIENT = ANEClient.shared_connection()


def layer(seed: int, chip: str = "h16s") -> Program:
    """Return a layer with weights of its own, WIDTH to WIDTH."""
    weights = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)).astype(np.float16) / 8
    return af.build_program((af.input((1, WIDTH), name="x") @ weights).tanh(), chip)


def adding() -> Program:
    """Return x + step, with two inputs."""
    return af.build_program(af.input((1, WIDTH), name="x") + af.input((1, WIDTH), name="step"), "h16s")


def buffer(surface: IOSurface, index: int = 0, source: int = 0) -> ANEBuffer:
    """Return a surface as a buffer."""
    return ANEBuffer(ANEIOSurfaceObject(surface), index, source)


def surface(name: str, values: Sequence[float] | None = None) -> IOSurface:
    """Return a surface for one tensor, with values."""
    made = IOSurface(BYTES, name)
    if values is not None:
        made.write(np.resize(np.array(values, np.float16), WIDTH))
    return made


def drawn(seed: int) -> Array:
    """Return values for one tensor."""
    return np.random.default_rng(seed).standard_normal((1, WIDTH)).astype(np.float16)


def values_of(one: IOSurface) -> Array:
    """Return what a surface holds."""
    return one.memory[:BYTES].view(np.float16).reshape(1, WIDTH).copy()


@dataclass
class Link:
    """A chain of one model from a surface to another, with an event that it signals."""

    model: ANEModel
    source: IOSurface
    sink: IOSurface
    name: str
    done: Event | None = None
    waits: Sequence[ANESharedWaitEvent] = ()

    def prepare(self) -> PreparedChain:
        """Prepare it."""
        signals = [] if self.done is None else [ANESharedSignalEvent(1, 0, 0, self.done)]
        request = ANEChainingRequest(
            [buffer(self.source)],
            [ANEIOSurfaceOutputSets(IOSurface(64), [buffer(self.sink, source=1)])],
            signal_events=signals,
        )
        return CLIENT.prepare_chaining(
            self.model, request, ChainOptions(self.name, wait_events=self.waits), simulate=True
        )

    def asked(self, times: int = 1) -> PreparedChain:
        """Prepare it, and ask for executions in an open loop."""
        chain = self.prepare()
        CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(signal_value=1, is_open_loop=True))
        for _ in range(times):
            CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0]))
        return chain
