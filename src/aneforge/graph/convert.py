"""`convert`: a graph in a dialect. What the dialect objects to is decomposed, until nothing is left, or refused.

Every way out of a graph goes through here: into a target's engine, MIL text, ML packages and network descriptions. The
decompositions themselves are in the entries of the op table, so what one writer writes is what another would, and
what the engine runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.callsite import warn
from aneforge.errors import AneforgeError, GraphError, NotSupportedError, PrecisionWarning
from aneforge.graph.dialect import Dialect, Objection
from aneforge.graph.graph import INPUT, PLACEHOLDERS
from aneforge.graph.node import CREATION, Node, Output, build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops import decompositions
from aneforge.ops.constant import Constant, Dense, wide_values
from aneforge.ops.declared import Declared
from aneforge.ops.decomposition import Limits
from aneforge.ops.table import find_op
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from aneforge.errors import Location
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Value
    from aneforge.ops.body import Call, Source
    from aneforge.ops.decomposition import Decomposition, Site, Term
    from aneforge.ops.op import Op
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import Array, TensorType

__all__ = [
    "Change",
    "Converted",
    "SuppliedInput",
    "choose",
    "convert",
    "expand",
    "iteration_of",
    "resolve_objections",
    "unroll",
]

NO_LIMITS = Limits()
DEEPEST = 16
"""Decompositions inside of each other; one that never ends is a mistake in the op table, not in a graph."""


@dataclass(frozen=True, slots=True)
class Change:
    """One operation that became others."""

    op: str
    location: Location | None
    detail: str
    """What it became, with the domain and the largest error where it is an approximation."""
    why: str = ""
    """What the dialect has against the operation as it was."""
    decomposition: str = ""
    """The name of the decomposition, among those of the operation."""


@dataclass(frozen=True, slots=True)
class SuppliedInput:
    """An input that a decomposition added, and what it is fed with."""

    name: str
    op: str
    """The operation that it replaces."""
    meaning: str
    type: TensorType
    attributes: Mapping[str, AttributeValue]
    """The attributes of the operation, its seed among them."""

    def draw(self) -> Array:
        """Return the numbers that the host draws: what the operation gives, for ones where it reads a tensor.

        >>> import aneforge as af
        >>> made = af.retarget(af.dropout(af.input((1, 4)), 0.5, seed=3), af.targets.Family.A13)
        >>> made.supplied[0].draw().tolist()
        [[0.0, 0.0, 2.0, 2.0]]
        """
        op = find_op(self.op)
        ones = {operand.name: np.ones(self.type.shape) for operand in op.operands}
        return op.evaluate(ones, self.attributes)[0]


@dataclass(frozen=True, slots=True)
class Converted:
    """A graph in a dialect, and what was done to get there."""

    graph: Graph
    changes: tuple[Change, ...] = ()
    supplied: tuple[SuppliedInput, ...] = ()
    """New inputs that the host feeds, such as random numbers."""
    target: str = ""
    """The target that it is for, if for one."""
    route: str = "mil"
    """How it reaches an engine: as a MIL program, or directly, as a network description."""


def convert(graph: Graph, dialect: Dialect) -> Converted:
    """Return a graph that means the same and to which a dialect has no objection; what it takes already is shared.

    >>> import aneforge as af
    >>> from aneforge.formats.mil.dialect import mil_dialect
    >>> made = convert(af.Graph({"y": af.input((1, 4)).l2_norm()}), mil_dialect())
    >>> [node.op.name for node in made.graph.nodes]
    ['input', 'reduce_l2_norm', 'threshold', 'real_div']
    >>> made.changes[0].op, made.changes[0].decomposition
    ('l2_norm', 'length')

    Raises:
        NotSupportedError: The dialect has no form of an operation.
        GraphError: A number of a decomposition has no fp16.
    """
    flat = unroll(graph)
    objections = {node: found for node in flat.graph.nodes if (found := objection_to(node, dialect)) is not None}
    made = resolve_objections(flat.graph, dialect, objections)
    return replace(made, changes=(*flat.changes, *made.changes))


def unroll(graph: Graph) -> Converted:
    """Return a graph whose loops are written iteration by iteration; every way out of a graph begins so.

    What a loop repeats comes to be as if it had been written out, each operation at its own place.

    >>> import aneforge as af
    >>> total, _ = af.scan(lambda total, row: (total + row, total), [af.input((4,))], [af.input((3, 4))])
    >>> [node.op.name for node in unroll(af.Graph({"y": total})).graph.nodes].count("add")
    3

    Raises:
        NotSupportedError: A loop has too many iterations.
    """
    objections = {node: found for node in graph.nodes if (found := loop_objection(node)) is not None}
    return resolve_objections(graph, UNROLLED, objections)


def loop_objection(node: Node) -> Objection | None:
    """Object to an operation that repeats a body."""
    return Objection("loops are written iteration by iteration") if node.body is not None else None


def resolve_objections(graph: Graph, dialect: Dialect, objections: Mapping[Node, Objection]) -> Converted:
    """Return a graph in a dialect whose objections to its nodes are known.

    Raises:
        NotSupportedError: The dialect has no form of an operation.
        GraphError: A number of a decomposition has no fp16.
    """
    if not objections:
        return Converted(graph)
    conversion = Conversion(dialect)

    def replace(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        objection = objections.get(node)
        return None if objection is None else conversion.decompose(node, operands, objection)

    made = rewrite(graph, replace)
    return Converted(made, tuple(conversion.changes), tuple(conversion.supplied))


def expand(
    op: str, operands: Mapping[str, Argument], attributes: Mapping[str, object] | None = None, **options: object
) -> Tensor:
    """Return the first result of an operation in its first decomposition, which every dialect may object to later.

    `options` are what that decomposition leaves open, such as the number of tiles of attention.
    """
    node = build(op, operands, attributes)
    conversion = Conversion(None)
    site = ConversionSite(conversion, node, depth=1)
    return results_of(node.op.decompositions()[0], site, operands, **options)[0]


def objection_to(node: Node, dialect: Dialect) -> Objection | None:
    """Return what a dialect has against a node; inputs and states are ports, not operations."""
    return None if node.op.name in PLACEHOLDERS else dialect.objection(node)


UNROLLED = Dialect("a graph without loops", loop_objection)


def iteration_of(loop: Node, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
    """Return what one iteration of a loop becomes when it is written out, of the values that its body reads by name."""
    body = loop.body
    assert body is not None  # noqa: S101 - only loops have iterations
    site = ConversionSite(Conversion(None), loop, depth=1)
    terms = {name: ConvertedTerm(site, value) for name, value in inputs.items()}
    results = decompositions.loops.run_iteration(cast("Site", site), body, cast("Mapping[str, Term]", terms))
    return tuple(cast("ConvertedTerm", one).value for one in results)


class Conversion:
    """Decomposes nodes one after the other, and remembers what it did."""

    def __init__(self, dialect: Dialect | None) -> None:
        self.dialect = dialect
        self.changes: list[Change] = []
        self.supplied: list[SuppliedInput] = []
        self.notes: list[str] = []

    def decompose(
        self,
        node: Node,
        operands: Mapping[str, Argument],
        objection: Objection,
        depth: int = 1,
        asked: Node | None = None,
    ) -> Sequence[Tensor]:
        """Return what a node becomes; changes and refusals name the outermost operation, `asked`, which is the user's.

        Raises:
            NotSupportedError: It has no decomposition that helps.
        """
        assert self.dialect is not None  # noqa: S101 - only a dialect objects
        if depth > DEEPEST:
            raise RuntimeError(f"decompositions of {node.op.name} go deeper than {DEEPEST}")
        site = ConversionSite(self, node, depth, asked)
        if objection.restated is not None:
            attributes = {**node.attributes, **objection.restated}
            if objection.detail:
                self.changes.append(Change(node.op.name, node.location, objection.detail, objection.why))
            return [site.tensor(term) for term in site.same_several(**operands, **attributes)]
        chosen = choose(node.op, objection, self.dialect)
        if chosen is None and asked is not None:
            why = f"it is written in other operations here, and one of them is refused: {objection.why}"
            raise self.dialect.refusal(asked, replace(objection, why=why))
        if chosen is None:
            raise self.dialect.refusal(node, objection)
        noted = len(self.notes)
        try:
            results = results_of(chosen, site, operands)
        except AneforgeError as error:
            error.operation = error.operation or node.op.name
            error.location = error.location or node.location
            raise
        if depth == 1:
            accuracy = [] if chosen.accuracy is None else [str(chosen.accuracy)]
            detail = "; ".join([chosen.form, *accuracy, *dict.fromkeys(self.notes[noted:])])
            self.changes.append(Change(node.op.name, node.location, detail, objection.why, chosen.name))
        return results


def choose(op: Op, objection: Objection, dialect: Dialect) -> Decomposition | None:
    """Return the decomposition that is taken of an operation; None where it must be refused."""
    if objection.final:
        return None
    wanted = dialect.preferred.get(op.name) if objection.decomposition is None else objection.decomposition
    if wanted is None:
        return next((one for one in op.decompositions() if not one.same_operation), None)
    return op.decomposition(wanted)


def results_of(
    decomposition: Decomposition, site: ConversionSite, operands: Mapping[str, Argument], **options: object
) -> Sequence[Tensor]:
    """Return the results of a decomposition as tensors."""
    node = site.node
    given = [site.argument(operands.get(operand.name)) for operand in node.op.operands]
    made = decomposition.build(site, *given, **node.attributes, **options)
    terms = cast("Sequence[ConvertedTerm]", [made] if isinstance(made, ConvertedTerm) else made)
    return [site.tensor(term) for term in terms]


class ConversionSite:
    """The place of a node that is decomposed: builds nodes there, each in the dialect."""

    def __init__(self, conversion: Conversion, node: Node, depth: int, asked: Node | None = None) -> None:
        self.conversion = conversion
        self.node = node
        self.depth = depth
        self.asked = asked or node

    @property
    def limits(self) -> Limits:
        """What there is room for in the dialect."""
        return self.conversion.dialect.limits if self.conversion.dialect else NO_LIMITS

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The types that the results must have."""
        return self.node.types

    def op(self, name: str, *operands: object, **attributes: object) -> ConvertedTerm:
        """Return the first result of an operation."""
        return self.several(name, *operands, **attributes)[0]

    def several(self, name: str, *operands: object, **attributes: object) -> tuple[ConvertedTerm, ...]:
        """Return all results of an operation: a node, or what it becomes in the dialect."""
        entry = find_op(name)
        bound = dict(bind_operands(entry, operands, attributes))
        given = {key: value for key, value in attributes.items() if key not in bound}
        return self.converted(build(name, bound, given, self.node.location))

    def converted(self, node: Node) -> tuple[ConvertedTerm, ...]:
        """Return all results of a node, or of what it becomes in the dialect."""
        dialect = self.conversion.dialect
        objection = objection_to(node, dialect) if dialect else None
        if objection is None:
            return tuple(ConvertedTerm(self, Tensor(node, index)) for index in range(len(node.types)))
        return tuple(
            ConvertedTerm(self, tensor)
            for tensor in self.conversion.decompose(node, node.operands, objection, self.depth + 1, self.asked)
        )

    def same(self, *operands: object, **attributes: object) -> ConvertedTerm:
        """Return the first result of the operation that is decomposed, in another form of it."""
        return self.op(self.node.op.name, *operands, **attributes)

    def same_several(self, *operands: object, **attributes: object) -> tuple[ConvertedTerm, ...]:
        """Return all results of the operation that is decomposed, in another form of it."""
        return self.several(self.node.op.name, *operands, **attributes)

    def again(self, call: Call, operands: Mapping[str, object]) -> tuple[ConvertedTerm, ...]:
        """Return all results of a call of a body at its own place, on operands of the types that it has there.

        Its types and attributes were judged when the body was made; a constant where it had a tensor is judged anew.
        """
        given = {
            name: tuple(map(value_of, cast("Sequence[object]", one))) if isinstance(one, tuple) else value_of(one)
            for name, one in operands.items()
        }
        place = call.location or self.node.location
        if all(map(is_as_judged, call.sources(), values_in(given))):
            return self.converted(Node(call.op, given, call.attributes, call.types, place, next(CREATION)))
        return self.converted(build(call.op, given, call.attributes, place))

    def evaluated(self) -> tuple[Array, ...]:
        """Return what the operation gives, where all its operands are constants."""
        arrays = {name: wide_values(value) for name, value in self.node.values() if isinstance(value, Constant)}
        return self.node.op.evaluate(arrays, self.node.attributes)

    def named(self, operands: Sequence[object]) -> dict[str, ConvertedTerm]:
        """Return operands but for the first by their names; those that were left out are not there."""
        names = [operand.name for operand in self.node.op.operands[1:]]
        return {name: one for name, one in zip(names, operands, strict=True) if isinstance(one, ConvertedTerm)}

    def constant(self, values: Array, dtype: str, what: str = "a constant") -> ConvertedTerm:
        """Return numbers as a constant, each rounded once.

        Raises:
            GraphError: One is too large for the element type.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = np.asarray(values).astype(numpy_dtype(dtype))
        if is_float(dtype):
            wide = rounded.astype(np.float64)
            if not np.all(np.isfinite(wide) | ~np.isfinite(values)):
                raise GraphError(
                    f"{what} has numbers that {dtype} cannot hold",
                    seen=float(np.max(np.abs(values))),
                    limit=float(np.finfo(numpy_dtype(dtype)).max),
                )
            if not np.array_equal(wide, values, equal_nan=True):
                self.note(f"{what} is rounded to {dtype}")
        return ConvertedTerm(self, Dense(np.asarray(rounded, order="C")))

    def derived(self, source: ConvertedTerm, how: str, shape: tuple[int, ...], dtype: str) -> ConvertedTerm:
        """Return what is computed of a weight without values: another one."""
        assert isinstance(source.value, Declared)  # noqa: S101 - the caller looked
        return ConvertedTerm(self, source.value.derive(how, shape, dtype))

    def supplied(self, kind: TensorType, meaning: str) -> ConvertedTerm:
        """Return a new input that the caller feeds."""
        given = self.conversion.supplied
        name = f"supplied_{self.node.op.name}{len(given)}"
        given.append(SuppliedInput(name, self.node.op.name, meaning, kind, self.node.attributes))
        attributes = {"shape": kind.shape, "dtype": kind.dtype, "name": name}
        return ConvertedTerm(self, Tensor(build(INPUT, {}, attributes, self.node.location)))

    def note(self, text: str) -> None:
        """Say what a reader of the changes should know of this one."""
        self.conversion.notes.append(text)

    def warn(self, text: str) -> None:
        """Warn of precision that is lost, at the user's own line."""
        warn(f"{self.node.location}: {text}", PrecisionWarning)

    def refusal(
        self, message: str, *, seen: object = None, limit: object = None, remedy: str | None = None
    ) -> NotSupportedError:
        """Return the error for operands that the decomposition does not take."""
        return NotSupportedError(
            message,
            operation=self.node.op.name,
            location=self.node.location,
            seen=seen,
            limit=limit,
            remedy=remedy,
        )

    def argument(self, argument: Argument | None) -> ConvertedTerm | tuple[ConvertedTerm, ...] | None:
        """Return an operand of the node as a term."""
        if isinstance(argument, tuple):
            return tuple(ConvertedTerm(self, value) for value in argument)
        return None if argument is None else ConvertedTerm(self, argument)

    def tensor(self, term: ConvertedTerm) -> Tensor:
        """Return a result as a tensor; a constant leaves through an operation that copies it."""
        value = term.value if isinstance(term.value, Output) else self.op("identity", term).value
        assert isinstance(value, Output)  # noqa: S101 - an operation gives a tensor
        return value if isinstance(value, Tensor) else Tensor(value.node, value.index)


def bind_operands(entry: Op, operands: Sequence[object], named: Mapping[str, object]) -> Iterator[tuple[str, Argument]]:
    """Yield operands by name: the given ones in order, a list where the operation takes one, then those with a name."""
    rest = list(operands)
    for operand in entry.operands:
        given = named.get(operand.name)
        if given is None and rest:
            given = tuple(rest) if operand.variadic and not isinstance(rest[0], tuple) else rest.pop(0)
            rest = [] if operand.variadic else rest
        if given is not None:
            several = isinstance(given, tuple)
            yield operand.name, tuple(map(value_of, cast("Sequence[object]", given))) if several else value_of(given)


def values_in(operands: Mapping[str, Argument]) -> Iterator[Value]:
    """Yield the values of operands, lists taken apart."""
    for argument in operands.values():
        yield from argument if isinstance(argument, tuple) else (argument,)


def is_as_judged(source: Source, value: Value) -> bool:
    """Return whether a call of a body reads what it did when it was judged: its constant, or a tensor for a tensor."""
    return source is value or isinstance(value, Output)


def value_of(term: object) -> Value:
    """Return the value of a term."""
    return term.value if isinstance(term, ConvertedTerm) else cast("Value", term)


@dataclass(frozen=True, slots=True, eq=False)
class ConvertedTerm:
    """A value of the new graph, in the notation of decompositions."""

    site: ConversionSite
    value: Value

    @property
    def type(self) -> TensorType:
        """Shape and element type."""
        return self.value.type

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self.value.type.shape

    @property
    def dtype(self) -> str:
        """Element type."""
        return self.value.type.dtype

    @property
    def known(self) -> Array | None:
        """The numbers of a constant; None for a tensor, and for a weight without values."""
        if not isinstance(self.value, Constant) or isinstance(self.value, Declared):
            return None
        return wide_values(self.value)

    @property
    def is_declared(self) -> bool:
        """It is a weight without values."""
        return isinstance(self.value, Declared)

    @property
    def encoding(self) -> str | None:
        """How the numbers of a constant are stored; None for a tensor, and for plain numbers."""
        if not isinstance(self.value, Constant) or not self.value.is_encoded:
            return None
        return str(self.value.encoding)

    def __add__(self, other: ConvertedTerm | float) -> ConvertedTerm:
        if isinstance(other, ConvertedTerm):
            return self.site.op("add", self, other)
        return self.site.op("adds", self, k=other)

    def __sub__(self, other: ConvertedTerm | float) -> ConvertedTerm:
        return self.site.op("sub", self, other) if isinstance(other, ConvertedTerm) else self + -other

    def __mul__(self, other: ConvertedTerm | float) -> ConvertedTerm:
        if isinstance(other, ConvertedTerm):
            return self.site.op("mul", self, other)
        return self.site.op("muls", self, k=other)

    def __truediv__(self, other: ConvertedTerm | float) -> ConvertedTerm:
        divisor = other if isinstance(other, ConvertedTerm) else self.site.constant(np.asarray(other), self.dtype)
        return self.site.op("real_div", self, divisor)

    def __neg__(self) -> ConvertedTerm:
        return self * -1.0

    def __getattr__(self, op: str) -> Callable[..., ConvertedTerm]:
        if op.startswith("_"):
            raise AttributeError(op)

        def apply(*operands: object, **attributes: object) -> ConvertedTerm:
            return self.site.op(op, self, *operands, **attributes)

        return apply
