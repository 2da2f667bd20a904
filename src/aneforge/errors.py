"""Every error that aneforge raises on purpose.

One small hierarchy under `AneforgeError`. An error a user can act on carries what a good report needs: the
operation, the place in the user's own file, the value, the limit, the target and the remedy; `str(error)` puts them
into one message that prints cleanly everywhere.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Self

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "AmbiguousTargetError",
    "AneforgeError",
    "BackendUnavailableError",
    "ChainingError",
    "CheckpointError",
    "CompileBackoffError",
    "CrossChipFP16Warning",
    "DataFileError",
    "DeadlockError",
    "DispatchFloorWarning",
    "GraphError",
    "GraphTypeError",
    "HwxError",
    "IllegalGraphError",
    "InternalError",
    "Location",
    "MissingPackageError",
    "NoDataError",
    "NotSupportedError",
    "OversizeWarning",
    "PrecisionWarning",
    "ProgramFileError",
    "RaceError",
    "RuntimeStateError",
    "SaturationWarning",
    "SliceSaturationWarning",
    "StrictCompileError",
    "UnknownNameError",
    "UnknownTargetError",
    "UnsupportedModelError",
    "nearest_names",
]

LISTED = 8
"""Known names that an error lists where none is like the one that was given."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's own material: a line of a file, a named node of an imported model, or both.

    >>> str(Location(file="model.py", line=12))
    'model.py:12'
    >>> str(Location(file="resnet.onnx", node="Conv_3"))
    "node 'Conv_3' of resnet.onnx"
    """

    file: str | None = None
    line: int | None = None
    node: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        if self.node is None:
            return place or "unknown place"
        return f"node {self.node!r}" + (f" of {place}" if place else "")


class AneforgeError(Exception):
    """Base of all errors raised on purpose.

    >>> print(AneforgeError("the kernel is too wide", operation="conv", seen=14, limit=13, location=Location("a.py")))
    conv at a.py: the kernel is too wide (got 14, limit 13)
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = None,
        location: Location | None = None,
        seen: object = None,
        limit: object = None,
        target: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.operation = operation
        self.location = location
        self.seen = seen
        self.limit = limit
        self.target = target
        self.remedy = remedy

    def __reduce__(self) -> tuple[Callable[..., AneforgeError], tuple[type[AneforgeError], str, dict[str, object]]]:
        """Travel between processes as what it says, whatever its class was made from."""
        return restore, (type(self), self.message, self.__dict__)

    def __str__(self) -> str:
        where = [
            self.operation,
            f"at {self.location}" if self.location else None,
            f"on {self.target}" if self.target else None,
        ]
        prefix = " ".join(part for part in where if part)
        suffix = describe_values(self.seen, self.limit)
        text = f"{prefix}: {self.message}" if prefix else self.message
        text += f" ({suffix})" if suffix else ""
        return f"{text}. Remedy: {self.remedy}" if self.remedy else text


def describe_values(seen: object, limit: object) -> str:
    """Return what an error says of a value and of what is allowed: a number is a limit, all else is expected.

    >>> describe_values(14, 13), describe_values("fp32", "fp16 or int8"), describe_values(None, None)
    ('got 14, limit 13', 'got fp32, expected fp16 or int8', '')
    """
    parts: list[str] = []
    if seen is not None:
        parts.append(f"got {seen}")
    if limit is not None:
        parts.append(f"{'limit' if re.match('-?[0-9]', str(limit)) else 'expected'} {limit}")
    return ", ".join(parts)


def restore(kind: type[AneforgeError], message: str, state: Mapping[str, object]) -> AneforgeError:
    """Return an error of another process.

    >>> import pickle
    >>> print(pickle.loads(pickle.dumps(AneforgeError("the kernel is too wide", operation="conv", seen=14))))
    conv: the kernel is too wide (got 14)
    """
    error = kind.__new__(kind, message)
    error.__dict__.update(state)
    return error


class UnknownNameError(AneforgeError, ValueError, KeyError):
    """A name that is in no table; the message lists the nearest names that are.

    It is a `KeyError` and a `ValueError` because the documented API promises one for some calls and the other
    for the rest. `KeyError` would print its message quoted; `AneforgeError.__str__` comes first and does not.

    >>> from aneforge.targets import Family, resolve
    >>> resolve(Family.A16).fact("max_rnk")
    Traceback (most recent call last):
        ...
    aneforge.errors.UnknownNameError: unknown value 'max_rnk'; nearest: max_rank, matmul_max_rank, linear_max_rank
    """

    @classmethod
    def of(cls, what: str, name: object, known: Iterable[str], *, remedy: str | None = None) -> Self:
        """Build the error for `name`, which is not a known `what`.

        >>> print(UnknownNameError.of("limit", "max_tensor_dims", ["max_tensor_dim", "rank"]))
        unknown limit 'max_tensor_dims'; nearest: max_tensor_dim
        """
        candidates = list(known)
        close = nearest_names(str(name), candidates)
        more = f" and {len(candidates) - LISTED} more" if len(candidates) > LISTED else ""
        suggestion = f"nearest: {', '.join(close)}" if close else f"known: {', '.join(candidates[:LISTED])}{more}"
        return cls(f"unknown {what} {name!r}; {suggestion}", remedy=remedy)


class UnknownTargetError(UnknownNameError):
    """A target, chip or family name that no table knows.

    >>> from aneforge.targets import resolve
    >>> try:
    ...     resolve("no such chip")
    ... except UnknownTargetError as error:
    ...     print(error.remedy)
    `aneforge targets` lists every target and chip
    """


class AmbiguousTargetError(UnknownTargetError):
    """A name with two readings. None is left: a name that a chip and a family have is the chip's.

    >>> issubclass(AmbiguousTargetError, KeyError), issubclass(AmbiguousTargetError, UnknownTargetError)
    (True, True)
    """


class NoDataError(AneforgeError, ValueError, KeyError):
    """A name that is known and about which no source says what was asked.

    >>> from aneforge.targets import Family, resolve
    >>> try:
    ...     resolve(Family.A13).fact("unicast_input_channel_limit")
    ... except NoDataError as error:
    ...     print(error.message)
    HAL field 'unicast_input_channel_limit' is unknown here: no published source gives its value
    """


class PropertyTypeError(AneforgeError, TypeError):
    """A property of a target that is of a different type than was asked for, such as the word `none` for a number.

    >>> from aneforge.targets import Family, resolve
    >>> try:
    ...     resolve(Family.A13).hal.integer("texture_engine")
    ... except PropertyTypeError as error:
    ...     print(error.message)
    HAL field 'texture_engine' is False, not an integer
    """


class GraphError(AneforgeError, ValueError):
    """An operation was given something that it cannot take: a shape, a value, an attribute.

    >>> import aneforge as af
    >>> try:
    ...     af.input((1, 4)).reshape((3, 3))
    ... except GraphError as error:
    ...     print(error.operation, error.message, sep=": ")
    reshape: a tensor of 4 elements cannot take the shape [3, 3] of 9 elements
    """


class GraphTypeError(GraphError, TypeError):
    """An operation was given the wrong sort of thing, such as an array where it needs a tensor.

    >>> import aneforge as af
    >>> try:
    ...     af.input((1, 4)) + "1"
    ... except GraphTypeError as error:
    ...     print(error.message, error.seen, sep=": ")
    an operand is neither a tensor, a number nor an array: '1'
    """


class MissingPackageError(AneforgeError, ImportError):
    """A package that a call needs is not installed; the remedy is the line that installs it.

    >>> print(MissingPackageError("reading ONNX models needs the package onnx", remedy="pip install onnx"))
    reading ONNX models needs the package onnx. Remedy: pip install onnx
    """


class NotSupportedError(GraphError, NotImplementedError):
    """An operation is valid and is not supported here; the message says which form is.

    >>> import aneforge as af
    >>> try:
    ...     af.einsum("abcd,efgh->abcdefgh", af.input((2, 2, 2, 2)), af.input((2, 2, 2, 2)))
    ... except NotSupportedError as error:
    ...     print(error.message.partition(": ")[2], error.seen, error.limit, sep=", ")
    the output has more axes than the builder allows, 8, 5
    """

    layer: str | None = None
    """The layer of the program that is refused, where a pass of the compiler refuses one."""
    obstacle: str | None = None
    """Why that layer cannot be made legal."""
    length: int | None = None
    """The length of the axis that cannot be cut, where it is one."""
    uncut: frozenset[tuple[str, Location | None, tuple[int, ...]]] = frozenset()
    """The operations of the graph that cannot be split: name, place and shape of what the layer is made of, and of
    what has the same long axis before and after it."""


class IllegalGraphError(NotSupportedError):
    """A graph that cannot run on a target: the message lists every operation that stops it, with reason and remedy.

    >>> import aneforge as af
    >>> try:
    ...     af.compile(af.topk(af.input((1, 16)), 2)[0], target=af.targets.Family.A13)
    ... except IllegalGraphError as error:
    ...     print([finding.partition(":")[0] for finding in error.findings])
    ['ANE-FLOOR-002 reject']
    """

    findings: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: str, findings: Iterable[str]) -> Self:
        """Build the error for a graph that several findings stop.

        >>> print(IllegalGraphError.of("the target", ["relu is too wide", "sin is missing"]))
        on the target: the graph cannot run, 2 findings:
          relu is too wide
          sin is missing
        """
        listed = tuple(findings)
        count = "1 finding" if len(listed) == 1 else f"{len(listed)} findings"
        error = cls("\n  ".join([f"the graph cannot run, {count}:", *listed]), target=target)
        error.findings = listed
        return error


class StrictCompileError(NotSupportedError):
    """A graph that compiles, but not as strictly as was asked: the message lists everything that was not let pass.

    >>> import aneforge as af
    >>> try:
    ...     af.compile(af.input((1, 16, 8, 8), max_abs=1.0).sin(), target=af.targets.Family.A13, strict=True)
    ... except StrictCompileError as error:
    ...     print([finding.partition(":")[0] for finding in error.findings])
    ['decompose', 'retarget', 'modelled', 'modelled', 'modelled']
    """

    findings: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: str, findings: Iterable[str]) -> Self:
        """Build the error for a graph in which a strict compile found something.

        >>> print(StrictCompileError.of("the target", ["decomposition: sin became a polynomial"]))
        on the target: a strict compile lets none of this pass, 1 finding:
          decomposition: sin became a polynomial
        """
        listed = tuple(findings)
        count = "1 finding" if len(listed) == 1 else f"{len(listed)} findings"
        error = cls("\n  ".join([f"a strict compile lets none of this pass, {count}:", *listed]), target=target)
        error.findings = listed
        return error


class InternalError(AneforgeError, RuntimeError):
    """The compiler made something that is not a program: a mistake of aneforge, whatever the model was.

    It is no `GraphError`, so nothing that asks whether a graph can run takes it for an answer.

    >>> try:
    ...     raise InternalError.of("collapse-layout", GraphError("%t4 reads %t1 before it is written"))
    ... except InternalError as error:
    ...     print(error.operation, isinstance(error, GraphError))
    collapse-layout False
    """

    reproducer: str | None = None
    """The file that holds what is needed to see it again."""

    @classmethod
    def of(cls, stage: str, error: AneforgeError) -> Self:
        """Build the error for what a stage of the compiler, such as a pass, did wrong.

        >>> print(InternalError.of("collapse-layout", GraphError("%t4 reads %t1 before it is written")))
        collapse-layout: %t4 reads %t1 before it is written. This is a mistake of aneforge, not of the model
        """
        return cls(f"{error}. This is a mistake of aneforge, not of the model", operation=stage)


class RuntimeStateError(AneforgeError, RuntimeError):
    """A model, program or stream was used in a state that does not allow it, such as after its release.

    >>> import aneforge as af
    >>> model = af.compile(af.input((1, 4)).relu(), target=af.targets.Family.A16)
    >>> model.release()
    >>> try:
    ...     model([[1.0, 2.0, 3.0, 4.0]])
    ... except RuntimeStateError as error:
    ...     print(error.operation, error.message, error.remedy, sep=": ")
    eval: the program was released: compile or load it again, or release it later
    """


class ChainingError(RuntimeStateError):
    """A call of the chaining model that ends as it ended in the study: in the system's words, and with the cause.

    >>> from aneforge.runtime.chaining import ANEClient, ANEModel
    >>> try:
    ...     ANEClient.shared_connection().load_model(ANEModel.model_at_url("folder", key="0123abcd"))
    ... except ChainingError as error:
    ...     print(error.code, error.experiments, error.system.partition(" : ")[2])
    -1 ('M',) error Cannot load network 'folder/model.espresso.net'"
    """

    system: str = ""
    """What the system said: an error, or the selector that an object did not have."""
    code: int | None = None
    """The code of the system's error; None where it was an exception."""
    experiments: tuple[str, ...] = ()
    """The experiments that saw it."""


class DeadlockError(RuntimeStateError):
    """Chained requests that can never run: each cause is named, a cycle with every wait in it.

    >>> import aneforge as af
    >>> from aneforge.runtime.chaining import *
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> model, client = ANEModel.with_symbol_table([program], simulate=True), ANEClient.shared_connection()
    >>> x, y = (ANEBuffer(ANEIOSurfaceObject(IOSurface(4, name=name)), symbol_index=0) for name in ("x", "y"))
    >>> request = ANEChainingRequest([x], [ANEIOSurfaceOutputSets(IOSurface(64), [y])])
    >>> chain = client.prepare_chaining(model, request, ChainOptions("a chain"), simulate=True)
    >>> client.buffers_ready(chain, ANEInputBuffersReady(input_buffer_info_index=[0]))  # and no output set
    >>> try:
    ...     run_chains([chain])
    ... except DeadlockError as error:
    ...     print(error.causes)
    ('a chain execution 0 waits for an output set of procedure 0, which is never enqueued',)
    """

    causes: tuple[str, ...] = ()


class RaceError(RuntimeStateError):
    """Chained requests whose result depends on their order, which nothing determines: every pair is named.

    >>> import aneforge as af
    >>> from aneforge.runtime.chaining import *
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> model, client = ANEModel.with_symbol_table([program], simulate=True), ANEClient.shared_connection()
    >>> x, y = (ANEBuffer(ANEIOSurfaceObject(IOSurface(4, name=name)), symbol_index=0) for name in ("x", "y"))
    >>> request = ANEChainingRequest([x], [ANEIOSurfaceOutputSets(IOSurface(64), [y])])
    >>> chains = [client.prepare_chaining(model, request, ChainOptions(name), simulate=True) for name in ("a", "b")]
    >>> for chain in chains:
    ...     client.enqueue_sets(chain, ANEOutputSetEnqueue())
    ...     client.buffers_ready(chain, ANEInputBuffersReady(input_buffer_info_index=[0]))
    >>> try:
    ...     run_chains(chains)
    ... except RaceError as error:
    ...     print(error.races[0].partition(" and b ")[2])
    execution 0 writes output symbol 0 to it, and no event orders them
    """

    races: tuple[str, ...] = ()


class BackendUnavailableError(AneforgeError, RuntimeError):
    """A backend that was chosen cannot run here; the message says why. There is no fallback to another one.

    >>> import aneforge as af
    >>> try:
    ...     af.compile(af.input((1, 4)).relu(), target=af.targets.Family.A16, backend="path_b")
    ... except BackendUnavailableError as error:
    ...     print(error.message.partition(" is not available: ")[2])
    it needs the entitlement com.apple.aned.private.allow, which no third-party process is given
    """


class CompileBackoffError(AneforgeError, RuntimeError):
    """A device failed to compile a moment ago, and is not called for a while.

    >>> from contextlib import suppress
    >>> from aneforge.runtime.breaker import guard_compile
    >>> with suppress(RuntimeError), guard_compile("a device"):
    ...     raise RuntimeError("the service said no")
    >>> try:
    ...     with guard_compile("a device"):
    ...         pass
    ... except CompileBackoffError as error:
    ...     print(error.remedy)
    fix what failed and call af.reset_compile_breaker(), or wait
    """


class ProgramFileError(AneforgeError, ValueError):
    """A saved program cannot be read: it is not such a file, damaged, of another version or for another target.

    >>> import tempfile
    >>> import aneforge as af
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     try:
    ...         af.load_program(file.name)
    ...     except ProgramFileError as error:
    ...         print(error.message, error.remedy, sep=": ")
    this is not a saved program: it has no header: model.save writes one
    """


class CheckpointError(AneforgeError, ValueError):
    """A checkpoint cannot be loaded: it is not such a file, damaged, incomplete, or of another network.

    >>> import tempfile
    >>> import numpy as np
    >>> import aneforge as af
    >>> x, t, w = af.input((4, 2)), af.input((4, 1)), af.parameter(np.zeros((2, 1)))
    >>> trainer = af.Trainer(af.mse(x @ w, t), [w], lr=0.25, target=af.targets.Family.A16)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     try:
    ...         trainer.load(file.name)
    ...     except CheckpointError as error:
    ...         print(error.message)
    the file is not a checkpoint: Error while deserializing header: header too small
    """


class UnsupportedModelError(AneforgeError, ValueError):
    """A language model that is not built here: the message names what is not supported, and what can be done.

    >>> from aneforge.llm.architecture import ModelSettings
    >>> from aneforge.llm.architectures import describe_decoder
    >>> try:
    ...     describe_decoder(ModelSettings({"model_type": "gemma2"}, "config.json"))
    ... except UnsupportedModelError as error:
    ...     print(error.message)
    gemma2 caps logits of attention (softcapping), which is not supported here
    """


class HwxError(AneforgeError, ValueError):
    """A compiled container (HWX, or a file of the Linux driver) is damaged, or has a form that is not known.

    >>> from aneforge.formats.hwx.read_hwx import read_bytes
    >>> read_bytes(b"not a container")
    Traceback (most recent call last):
        ...
    aneforge.errors.HwxError: offset 0x0: the file is too small for a header (got 15, limit 32)
    """

    offset: int | None = None
    """Bytes from the start of the file to what is wrong; None where it is missing."""

    @classmethod
    def at(cls, offset: int, message: str, *, seen: object = None, limit: object = None) -> Self:
        """Build the error for a place in a file.

        >>> print(HwxError.at(0x14, "the commands must end within the file", seen=4096, limit=512))
        offset 0x14: the commands must end within the file (got 4096, limit 512)
        """
        error = cls(f"offset {offset:#x}: {message}", seen=seen, limit=limit)
        error.offset = offset
        return error


class DataFileError(AneforgeError):
    """One of the package's data files is not in the form that its reader expects.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from aneforge.targets.database import Database
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "chips.toml").write_text("chips = 1")
    ...     try:
    ...         Database(Path(folder)).chips
    ...     except DataFileError as error:
    ...         print(error.message)
    chips.toml: Expected `object`, got `int` - at `$.chips`
    """


class PrecisionWarning(UserWarning):
    """A value loses more precision than a user would expect.

    >>> import warnings
    >>> import numpy as np
    >>> import aneforge as af
    >>> weights = np.full((4, 4), 1e5)
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", PrecisionWarning)
    ...     _ = af.input((1, 4)).linear(weights)
    >>> print(str(given[0].message).rpartition(": ")[2])
    16 values such as 100000 do not fit in fp16 and become infinite; the largest is 65504
    """


class SaturationWarning(PrecisionWarning):
    """Finite values can become infinite on the target although the mathematical result is finite.

    >>> import warnings
    >>> import aneforge as af
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", SaturationWarning)
    ...     _ = af.compile(af.input((1, 4)).sin(), target=af.targets.Family.A13)
    >>> print(str(given[0].message).partition(": ")[2].partition(" Remedy")[0])
    it is built from other operations there, which become infinite for magnitudes above 3234 (nothing bounds them).
    """


class SliceSaturationWarning(SaturationWarning):
    """A slice goes through a fixed-point copy on the target, which makes large magnitudes infinite.

    >>> import warnings
    >>> import aneforge as af
    >>> out = af.input((1, 1, 1, 8)).slice_by_size([0, 0, 0, 4], [1, 1, 1, 4])
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", SliceSaturationWarning)
    ...     _ = af.compile(out, target=af.targets.Family.A13)
    >>> print(str(given[0].message).partition(": ")[2].partition(" (nothing")[0])
    the slice begins inside the width and is copied times 16 in fp16: magnitudes above 4094 become infinite
    """


class CrossChipFP16Warning(UserWarning):
    """The same graph gives different fp16 values on another target: a notice, never a rejection.

    >>> import warnings
    >>> import aneforge as af
    >>> from aneforge._compile import cross_compile_check
    >>> out = af.input((1, 1, 1, 8)).slice_by_size([0, 0, 0, 4], [1, 1, 1, 4])
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", CrossChipFP16Warning)
    ...     _ = cross_compile_check(out, af.targets.Family.A16, host=af.targets.Family.A13)
    >>> print(str(given[0].message).partition(": ")[2].partition(" (")[0])
    saturation, crop route
    """


class OversizeWarning(UserWarning):
    """A tensor is longer than the target allows: the compiler splits its operations, at a cost.

    >>> import warnings
    >>> import aneforge as af
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", OversizeWarning)
    ...     _ = af.compile(af.input((1, 1, 1, 20000)).relu(), target=af.targets.Family.A13)
    >>> print(str(given[0].message).partition("Compile ")[2])
    splits it: 2 parts, with 5 layers that cut and join (140000 bytes)
    """


class DispatchFloorWarning(UserWarning):
    """A program is so small that dispatching it takes longer than its computation.

    >>> import warnings
    >>> import aneforge as af
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("ignore")
    ...     warnings.simplefilter("always", DispatchFloorWarning)
    ...     _ = af.compile(af.input((1, 4)).relu(), target=af.targets.Family.A13)
    >>> print(str(given[0].message).rpartition(": ")[2])
    put more work into one call, such as a larger batch or several steps
    """


def nearest_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the known names most like `name`, best first, compared without regard to case.

    >>> nearest_names("Max_Rank", ["min_rank", "max_rank", "extent"])
    ['max_rank', 'min_rank']
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=0.5)]
