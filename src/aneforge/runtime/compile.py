"""`af.compile`: a graph becomes a model for one target. `af.load_program`: a saved one becomes a model again.

Precision comes first, then whether the target takes the graph, canonical form, routes, and the cost of the dispatch.
What must be said is said as a warning, once per cause, at the user's own line; the model keeps it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, cast, overload

from aneforge.analysis.long_sums import find_precision_risks
from aneforge.callsite import warn
from aneforge.compiler.ir.catalogue import is_bridge
from aneforge.errors import (
    GraphError,
    NotSupportedError,
    OversizeWarning,
    ProgramFileError,
    StrictCompileError,
)
from aneforge.graph.convert import unroll
from aneforge.graph.graph import as_graph, expect_values
from aneforge.graph.precision import Halved, to_fp16
from aneforge.rules.preflight import preflight
from aneforge.runtime.backends import SoftwareBackend, choose_backend
from aneforge.runtime.building import Built, build, keep_artifacts, prepare_graph
from aneforge.runtime.executables import RunsMany
from aneforge.runtime.facts import Caution, give_warnings
from aneforge.runtime.hazards import (
    dispatch_cautions,
    oversize_text,
    precision_cautions,
    saturation_cautions,
    strict_findings,
)
from aneforge.runtime.model import MultiModel, load_compiled
from aneforge.runtime.options import Options, takes
from aneforge.runtime.saved.cache import key_of, program_cache
from aneforge.runtime.saved.files import read_program_file
from aneforge.runtime.saved.known_constants import KnownArrays
from aneforge.targets import place_of, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Output
    from aneforge.runtime.backends import Backend
    from aneforge.runtime.facts import ModelFacts
    from aneforge.runtime.model import AnyModel, Model
    from aneforge.runtime.options import PathLike
    from aneforge.targets import Place, Target, TargetLike

__all__ = ["compile", "compile_multi", "load_program"]

P = ParamSpec("P")


class CompileByOutput(Protocol[P]):
    """How `compile` is typed: a tensor makes a model of one output."""

    @overload
    def __call__(self, out: Output, /, *options: P.args, **named: P.kwargs) -> Model: ...
    @overload
    def __call__(self, out: GraphLike | PathLike, /, *options: P.args, **named: P.kwargs) -> AnyModel: ...


def by_output(function: Callable[Concatenate[GraphLike | PathLike, P], AnyModel]) -> CompileByOutput[P]:
    """Return a function as it is, with the type of `compile`."""
    return cast("CompileByOutput[P]", function)


@by_output
@takes(Options)
def compile(out: GraphLike | PathLike, options: Options) -> AnyModel:
    """Compile a graph for one target, and return a model: call it with arrays, it returns float32.

    A path is a model file of any format that `af.load_model` reads: `af.compile("model.onnx", target=…)`; if it has
    open dimensions, load it with `shapes=` first.

    The engine computes in fp16: wider floating-point tensors are converted to fp16, and the model's remarks say so.

    `int8` is `compress="int8"`. `compress` encodes the weights: int8, int4, sparse and blockwise as asked, with a
    warning if a relative error is above `compress_atol`; auto only within it, and only if ranges exclude that values
    become infinite by it. `build_dir` keeps the artifacts of this compile. `opt`: 0, None or False compiles the graph
    unchanged; "routes" removes operations that undo each other, without changing a bit; 1 chooses among forms of the
    graph by the cost model; 2 or "max" does so among forms whose error was computed. `validate` turns a precision
    warning into an error, unless its error is bounded, like that of the table of silu.
    `strict` turns every decomposition, folding, saturation risk and inexact arithmetic into an error. `target` is a
    compiler name, a chip, a family, or None for the host; `backend` one of `af.backends()`.

    >>> import numpy as np
    >>> import aneforge as af
    >>> net = af.compile(af.input((1, 4)).relu() + 1.0, target=af.targets.Family.A15)
    >>> net(np.array([[-1, 0, 1, 2]])).tolist()
    [[1.0, 1.0, 2.0, 3.0]]

    Raises:
        GraphError: An option has an unknown value, or `validate` found a risk.
        GraphTypeError: It is not a graph, or an option has the wrong type.
        IllegalGraphError: An operation cannot run on the target.
        NotSupportedError: An operation has no form there, or two options do not go together.
        StrictCompileError: `strict` found something that it does not allow.
        BackendUnavailableError: The backend cannot run here.
        UnknownTargetError: The target name is unknown.
        RuntimeStateError: This process has loaded the maximum number of programs.
    """
    if isinstance(out, str | os.PathLike):
        from aneforge.formats.model import load_model  # noqa: PLC0415 - most models are graphs already

        out = load_model(out)
    graph = as_graph(out)
    return build_model(graph, options, several=len(graph.outputs) > 1)


@takes(Options)
def compile_multi(outs: GraphLike, options: Options) -> MultiModel:
    """Compile several outputs into one program; the model returns them by name, those of a list as y0, y1, ….

    The options are those of `compile`. Graphs with layers that need a program of their own are refused, as by the
    documented function: compile such a graph with `compile`.

    >>> import numpy as np
    >>> import aneforge as af
    >>> x = af.input((1, 2))
    >>> net = af.compile_multi([x.relu(), x.abs()], target=af.targets.Family.A15)
    >>> {name: value.tolist() for name, value in net(np.array([[-1, 2]])).items()}
    {'y0': [[0.0, 2.0]], 'y1': [[1.0, 2.0]]}

    Raises:
        NotSupportedError: A layer needs a program of its own.
        AneforgeError: Whatever `compile` raises.
    """
    graph = unroll(as_graph(outs)).graph
    for node in (one for one in graph.nodes if is_bridge(one)):
        raise NotSupportedError(
            "compile_multi makes one program, and this layer needs one of its own",
            operation=node.op.name,
            location=node.location,
            remedy="af.compile takes a graph of several outputs and cuts it there",
        )
    made = build_model(graph, options, several=True)
    assert isinstance(made, MultiModel)  # noqa: S101 - several outputs make one
    return made


def build_model(graph: Graph, options: Options, *, several: bool) -> AnyModel:
    """Compile, warn in the documented order, and load."""
    expect_values(graph, "compiling to run")
    place, chosen, half = place_of(options.target), choose_backend(options.backend), to_fp16(graph)
    resolved, graph = place.target, half.graph
    verdict = preflight(graph, resolved)
    precision = (*lost_constants(half), *precision_cautions(find_precision_risks(graph), verdict))
    if options.validate:
        expect_no_risk(precision, resolved)
    give_warnings(precision)
    # A device compiles the graph, and artifacts show it, so neither is content with a program from the cache.
    fresh = options.build_dir is not None or not takes_programs(chosen)
    program, facts, built = build_or_find(graph, place, options, fresh=fresh)
    floor = dispatch_cautions(program)
    give_warnings(floor)
    # What was compiled may be warned of where the graph was not: its weights are encoded, its form is another.
    rules = tuple(caution for caution in facts.warnings if caution not in precision)
    if options.validate:
        expect_no_risk(rules, resolved)
    later = (*rules, *saturation_cautions(graph, program, verdict))
    give_warnings(later)
    split = oversize_text(verdict, program)
    if split is not None:
        warn(split, OversizeWarning)
    if options.strict and (found := strict_findings(program, verdict, (*precision, *later))):
        raise StrictCompileError.of(resolved.name, found)
    remarks = (*half.notes, *facts.remarks, *([split] if split is not None else []))
    facts = replace(facts, several=several, warnings=(*precision, *floor, *later), remarks=remarks)
    if options.folder is not None and built is not None:
        kept = keep_artifacts(replace(built, facts=facts), options.folder)
        facts = replace(facts, remarks=(*facts.remarks, *kept))
    # What was encoded now is not encoded again, nor are the weights kept that it was made of.
    source = partial(export_graph, graph, place, options) if built is None else lambda: built.prepared
    model = load_compiled(program, facts, chosen, None if built is None else built.graph, source)
    if options.strict:
        expect_on_device(model)
    return model


def takes_programs(backend: Backend) -> bool:
    """Return whether a backend runs the program itself, so that one from the cache is enough."""
    if isinstance(backend, SoftwareBackend):
        return True
    from aneforge.runtime.gpu import CudaBackend  # noqa: PLC0415 - few programs leave this process

    return isinstance(backend, CudaBackend)


def expect_on_device(model: AnyModel) -> None:
    """Refuse a model of which a device leaves layers to the host.

    Raises:
        NotSupportedError: It does.
    """
    executable = model.loaded.executable
    found = executable.host_layers() if isinstance(executable, RunsMany) else ()
    if found:
        model.release()
        raise NotSupportedError(
            "layers have no kernels on the device and would run on the host",
            seen="; ".join(found),
            remedy='leave strict out, or use backend="software"',
        )


def lost_constants(half: Halved) -> tuple[Caution, ...]:
    """Return the warnings of constants that are infinite or NaN in fp16."""
    return tuple(Caution("PrecisionWarning", message) for message in half.faults)


def export_graph(graph: Graph, place: Place, options: Options) -> Graph:
    """Return the graph that a model stands for, as other tools take it: rescaled and encoded, for no target."""
    return prepare_graph(graph, place, options).graph


def build_or_find(
    graph: Graph, place: Place, options: Options, *, fresh: bool
) -> tuple[Program, ModelFacts, Built | None]:
    """Return the program of a graph: from the cache, or compiled now and put there: then with what was built."""
    # The chip decides nothing but the form that a choice by cost takes, and what the program is called.
    named = [place.target.name] if place.chip is None else [place.target.name, place.chip.key]
    cache, key = program_cache(), key_of([graph.text, *named, options.key])
    known, remarks = KnownArrays.of(graph), tuple[str, ...]()
    if not fresh:
        found = cache.get(key, known)
        if found.entry is not None:
            return *found.entry, None
        remarks = found.remarks
    built = build(graph, place, options)
    remarks = (*remarks, *cache.put(key, built.program, built.facts, known))
    facts = replace(built.facts, remarks=(*built.facts.remarks, *remarks))
    return built.program, facts, built


def expect_no_risk(cautions: tuple[Caution, ...], target: Target) -> None:
    """Validate: nothing is warned of by which results may be wrong; errors that are known and bounded pass.

    Raises:
        GraphError: Something is.
    """
    risks = [caution.message for caution in cautions if not caution.bounded]
    if risks:
        listed = "\n  ".join(risks)
        raise GraphError(f"precision is at risk:\n  {listed}", target=target.name, remedy="validate=False only warns")


def load_program(path: PathLike, *, target: TargetLike = None, backend: str | Backend | None = None) -> AnyModel:
    """Read a saved model; its weights stay in the file, mapped into memory.

    A program is for one target. `target` checks that it is this target: a program is never converted for another one.

    >>> import tempfile
    >>> import numpy as np
    >>> import aneforge as af
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = af.compile(af.input((1, 2)).relu(), target=af.targets.Family.A15).save(f"{folder}/net.aneprg")
    ...     net = af.load_program(path)
    >>> net(np.array([[-1.0, 2.0]])).tolist()
    [[0.0, 2.0]]

    Raises:
        ProgramFileError: The file is not a program, or is damaged, truncated, of another version, or for another
            target.
        OSError: The file cannot be read.
        BackendUnavailableError: The backend cannot run here.
        RuntimeStateError: This process has loaded the maximum number of programs.
    """
    asked, chosen = None if target is None else resolve(target), choose_backend(backend)
    program, facts = read_program_file(path)
    if asked is not None and asked.name != program.target.name:
        raise ProgramFileError(
            "the program is for another target",
            operation=str(path),
            seen=program.target.name,
            limit=asked.name,
            remedy="compile the graph for the target that it should run on",
        )
    return load_compiled(program, facts, chosen, None)
