"""What programs give for sample inputs, each distinct program run once, and how far that is from the mathematics."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from aneforge.commands.divergences import datapath_key
from aneforge.commands.output_errors import output_error
from aneforge.errors import NotSupportedError
from aneforge.graph.reference import evaluate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.commands.model_and_targets import Subject
    from aneforge.compiler.compile import Compiled
    from aneforge.engine.exactness import Label
    from aneforge.engine.execution.run import Run
    from aneforge.ops.types import Array
    from aneforge.report.model import OutputError
    from aneforge.targets import Target

__all__ = ["SampleRuns"]


class SampleRuns:
    """Runs the programs of one model on sample inputs, and compares outputs with the model as its file has it."""

    def __init__(self, subject: Subject, samples: Mapping[str, Array], given: Mapping[str, Array]) -> None:
        self.subject, self.samples, self.given = subject, samples, given
        self.found: dict[object, tuple[Compiled, Run | None]] = {}

    def outputs(self, target: Target, compiled: Compiled) -> Mapping[str, Array] | None:
        """Return what a program gives; nothing where no source says what an operation computes."""
        ran = self.ran(target, compiled)
        return None if ran is None else ran.outputs

    def doubts(self, target: Target, compiled: Compiled) -> Mapping[str, tuple[Label, ...]]:
        """Return what the samples make less sure, by layer."""
        ran = self.ran(target, compiled)
        return {} if ran is None else ran.doubts

    def ran(self, target: Target, compiled: Compiled) -> Run | None:
        """Return the run of a program, or of another that computes the same; its labels may be of another target."""
        from aneforge.engine.execution.run import run  # noqa: PLC0415 - few checks have samples

        key = datapath_key(target, compiled)
        if key not in self.found:
            try:
                found = run(compiled.program, compiled.feed(self.samples))
            except NotSupportedError:
                found = None
            # The program is kept with the answer, so that no other layers can come to be at their address.
            self.found[key] = compiled, found
        return self.found[key][1]

    @cached_property
    def wanted(self) -> Mapping[str, Array]:
        """What the mathematics gives in float64, with the weights and inputs as their files have them."""
        inputs = {name: np.asarray(self.given.get(name, value)) for name, value in self.samples.items()}
        return evaluate(self.subject.original, inputs, {})[0]

    def errors(self, target: Target, compiled: Compiled) -> tuple[OutputError, ...]:
        """Return how far every output is from the mathematics; nothing where a program cannot be run."""
        outputs = self.outputs(target, compiled)
        if outputs is None:
            return ()
        return tuple(
            output_error(name, found, np.asarray(self.wanted[name]).reshape(found.shape))
            for name, found in outputs.items()
            if name in self.wanted
        )
