"""Reverse mode: the gradients of a graph as further nodes of it.

The rules are in the entries of the op table; a user adds one with `vjp`. Every node is visited once, the last first,
and adds what it passes on to what other readers passed on before, so the work is linear in nodes and their operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from aneforge.errors import AneforgeError, GraphError, GraphTypeError, NotSupportedError
from aneforge.graph.convert import Conversion, ConversionSite, ConvertedTerm, bind_operands
from aneforge.graph.methods.method_arguments import number
from aneforge.graph.node import Node, Output
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.gradient import Gradient, NoGradient
from aneforge.ops.table import find_op
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from aneforge.graph.node import Argument, Value
    from aneforge.ops.types import Array

__all__ = ["Rule", "backward", "backward_from", "vjp"]

Key = tuple[Node, int]
"""A value of a graph: a node, and which of its results."""
Rule = Callable[[Tensor, Tensor], Sequence[Tensor | None]]
"""A user's rule: of a result and its gradient, the gradients of the tensors that the operation reads, in order."""
R = TypeVar("R", bound=Rule)

RULES: dict[str, Rule] = {}
"""Rules that users registered; they come before those of the op table."""


def vjp(*ops: str) -> Callable[[R], R]:
    """Register a rule for operations, in place of their own: `fn(node, g)` gives a gradient or None for every source.

    `node` is the result, with `op`, `srcs` and `attrs`; `g` is the gradient at it.

    >>> import aneforge as af
    >>> @vjp("sign")
    ... def straight_through(node: af.Tensor, g: af.Tensor) -> list[af.Tensor]:
    ...     return [g]
    >>> x = af.input((1, 4))
    >>> [tensor.op for tensor in af.backward((x.sign() * 3.0).sum(), [x]).values()]
    ['fill']
    >>> del RULES["sign"]

    Raises:
        UnknownNameError: There is no such operation.
        GraphError: No operation is named.
    """
    if not ops:
        raise GraphError("a rule needs the name of an operation", remedy='write @vjp("name")')
    names = [find_op(name).name for name in ops]

    def register(rule: R) -> R:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def backward(
    loss: Tensor, params: Iterable[Tensor], loss_scale: float = 1.0, stop: Iterable[Tensor] | None = None
) -> dict[Tensor, Tensor]:
    """Return the gradient of a scalar loss, times `loss_scale`, at every parameter, as tensors of the same graph.

    Gradients are not propagated beyond the tensors of `stop`, by default the parameters.

    >>> import aneforge as af
    >>> x, w = af.input((1, 3), name="x"), af.input((3, 2), name="w")
    >>> loss = (x @ w).square().sum()
    >>> found = af.backward(loss, [w])
    >>> found[w].shape
    (3, 2)

    Raises:
        GraphError: The loss is not one number or does not depend on a parameter, or the scale is not positive.
        GraphTypeError: A parameter is not a tensor of floating-point numbers, or the scale is not a number.
        NotSupportedError: An operation between loss and parameters has no gradient.
    """
    if not isinstance(loss, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError("the loss must be a tensor", seen=type(loss).__name__)
    if loss.type.size != 1:
        raise GraphError(
            "the loss must be one number",
            operation=loss.op,
            location=loss.node.location,
            seen=f"shape {list(loss.shape)}",
            remedy="take its mean or sum, or use backward_from with a gradient of this shape",
        )
    expect_float_tensor(loss, "the loss")
    scale = number(loss_scale, "backward", "loss_scale", finite=False)
    if not (math.isfinite(scale) and scale > 0):
        raise GraphError("loss_scale must be a positive number", seen=loss_scale, remedy="use 1.0, or a power of 2")
    with np.errstate(over="ignore"):
        rounded = np.asarray(scale, np.float64).astype(numpy_dtype(loss.dtype)).astype(np.float64)
    if not np.isfinite(rounded):
        raise GraphError(
            "loss_scale is too large for the element type of the loss",
            seen=loss_scale,
            limit=f"the largest number of {loss.dtype}",
            remedy="use a smaller scale, or backward_from with a gradient in which the scale is divided by the batch",
        )
    seed = place_of(loss.node).constant(np.full(loss.shape, scale), loss.dtype, "loss_scale").value
    return gradients({key_of(loss): seed}, [loss], params, stop)


def backward_from(
    grad: Tensor | Sequence[Tensor],
    root: Tensor | Sequence[Tensor],
    params: Iterable[Tensor],
    stop: Iterable[Tensor] | None = None,
) -> dict[Tensor, Tensor]:
    """Return gradients at parameters from given gradients at one or several tensors.

    >>> import aneforge as af
    >>> x, g = af.input((2, 3), name="x"), af.input((2, 3), name="g")
    >>> af.backward_from(g, x.tanh(), [x])[x].shape
    (2, 3)

    Raises:
        GraphError: A gradient has a different shape than its tensor, or no root depends on a parameter.
        GraphTypeError: An argument is not a tensor of floating-point numbers.
        NotSupportedError: An operation between roots and parameters has no gradient.
    """
    roots = tensors_of(root, "root")
    given = tensors_of(grad, "grad")
    if len(roots) != len(given):
        raise GraphError("every root needs one gradient", seen=f"{len(given)} gradients", limit=f"{len(roots)} roots")
    seeds: dict[Key, Value] = {}
    for one, gradient in zip(roots, given, strict=True):
        if one.type != gradient.type:
            raise GraphError(
                "the gradient must have the type of its root",
                operation=one.op,
                location=one.node.location,
                seen=str(gradient.type),
                limit=str(one.type),
            )
        key = key_of(one)
        seeds[key] = gradient if key not in seeds else sum_of(one.node, seeds[key], gradient)
    return gradients(seeds, roots, params, stop)


def gradients(
    seeds: Mapping[Key, Value], roots: Sequence[Tensor], params: Iterable[Tensor], stop: Iterable[Tensor] | None
) -> dict[Tensor, Tensor]:
    """Return the gradients at parameters, given those at the roots."""
    wanted = tensors_of(params, "params")
    if not wanted:
        raise GraphError("there are no parameters", remedy="name the tensors whose gradients are asked for")
    frontier = wanted if stop is None else tensors_of(stop, "stop")
    keys = [key_of(one) for one in wanted]
    passage = Passage(roots, keys, [key_of(one) for one in frontier])
    for place, (one, key) in enumerate(zip(wanted, keys, strict=True)):
        if key not in passage.reached:
            raise GraphError(
                "the loss does not depend on this parameter",
                operation=one.op,
                location=one.node.location,
                seen=f"params[{place}], {name_of(one)}",
                remedy="leave it out of params, or compute the loss from it; integers, booleans and `stop` cut paths",
            )
    found = passage.run(seeds)
    return {one: as_tensor(one, found.get(key)) for one, key in zip(wanted, keys, strict=True)}


def as_tensor(param: Tensor, gradient: Value | None) -> Tensor:
    """Return a gradient as a tensor.

    Zeros are x − x: a product with the constant 0 is known not to compile after a reduction.
    """
    place = place_of(param.node)
    if gradient is None:
        term = ConvertedTerm(place, param)
        return place.tensor(term - term)
    return place.tensor(ConvertedTerm(place, gradient))


class Passage:
    """The nodes between roots and parameters, in an order in which each comes after those that it reads."""

    def __init__(self, roots: Sequence[Output], params: Iterable[Key], stop: Iterable[Key]) -> None:
        self.params = frozenset(params)
        self.stop = frozenset(stop)
        self.order = nodes_between(roots, self.stop)
        self.carriers: set[Node] = set()
        """Nodes whose results depend on a parameter in a way that has a gradient."""
        self.reached: set[Key] = {key_of(root) for root in roots} & self.params
        for node in self.order:
            carried = [key_of(source) for source in node.sources() if self.carries(source)]
            self.reached |= self.params.intersection(carried)
            if carried:
                self.carriers.add(node)

    def carries(self, value: Value) -> bool:
        """Return whether a gradient at this value is of use."""
        if not isinstance(value, Output):
            return False
        key = key_of(value)
        if key not in self.params and (key in self.stop or value.node not in self.carriers):
            return False
        return is_float(value.dtype) or is_straight(value.node)

    def run(self, seeds: Mapping[Key, Value]) -> dict[Key, Value]:
        """Return the gradients at the parameters; one that is not there is 0."""
        found = dict(seeds)
        for node in reversed(self.order):
            if node not in self.carriers:
                continue
            incoming = [self.take(found, (node, index)) for index in range(len(node.types))]
            if any(one is not None for one in incoming):
                for value, gradient in self.passed_on(node, incoming):
                    key = key_of(value)
                    found[key] = gradient if key not in found else sum_of(node, found[key], gradient)
        return {key: found[key] for key in self.params if key in found}

    def take(self, found: dict[Key, Value], key: Key) -> Value | None:
        """Return what comes back to a value; at the frontier nothing goes on, and what parameters get is kept."""
        if key in self.stop:
            return None
        return found.get(key) if key in self.params else found.pop(key, None)

    def passed_on(self, node: Node, incoming: Sequence[Value | None]) -> Iterable[tuple[Output, Value]]:
        """Yield what a node passes on, for every value that it reads and that has a use for it."""
        try:
            pairs = self.by_user(node, incoming) if node.op.name in RULES else self.by_entry(node, incoming)
            for value, gradient in pairs:
                if gradient is not None and isinstance(value, Output) and self.carries(value):
                    check_type(node, value, gradient)
                    yield value, gradient
        except AneforgeError as error:
            error.operation = error.operation or node.op.name
            error.location = error.location or node.location
            raise

    def by_user(self, node: Node, incoming: Sequence[Value | None]) -> list[tuple[Value, Value | None]]:
        """Return what a user's rule passes on, from every result by itself."""
        pairs: list[tuple[Value, Value | None]] = []
        place = place_of(node)
        for index, one in enumerate(incoming):
            if one is None:
                continue
            result = Tensor(node, index)
            given = RULES[node.op.name](result, place.tensor(ConvertedTerm(place, one)))
            if len(given) != len(result.srcs):
                raise GraphError(
                    "a rule must give a gradient, or None, for every tensor that the operation reads",
                    seen=f"{len(given)} gradients",
                    limit=f"{len(result.srcs)} tensors",
                )
            pairs += zip(result.srcs, given, strict=True)
        return pairs

    def by_entry(self, node: Node, incoming: Sequence[Value | None]) -> list[tuple[Value, Value | None]]:
        """Return what the rule of the op table passes on.

        Raises:
            NotSupportedError: There is none.
        """
        rule = rule_of(node)
        if not isinstance(rule, Gradient):
            why = f": {rule.why}" if isinstance(rule, NoGradient) else ""
            raise NotSupportedError(
                f"no vjp for op {node.op.name!r}{why}",
                operation=node.op.name,
                location=node.location,
                remedy=f'register one with @aneforge.autograd.vjp("{node.op.name}"), give the tensor to `stop`, or use '
                "other operations",
            )
        wanted = {name for name, value in node.values() if self.carries(value)}
        place = GradientPlace(node, incoming, wanted)
        backs = [None if one is None else ConvertedTerm(place, one) for one in incoming]
        operands = [place.argument(node.operands.get(operand.name)) for operand in node.op.operands]
        made = rule.build(place, backs if rule.several else backs[0], *operands, **node.attributes)
        listed = cast("Sequence[object]", [made] if len(operands) == 1 and not isinstance(made, list | tuple) else made)
        pairs: list[tuple[Value, Value | None]] = []
        for operand, one in zip(node.op.operands, listed, strict=True):
            argument = node.operands.get(operand.name)
            if argument is not None and one is not None:
                pairs += paired(argument, cast("ConvertedTerm | Sequence[ConvertedTerm | None]", one))
        return pairs


def paired(
    argument: Argument, given: ConvertedTerm | Sequence[ConvertedTerm | None]
) -> Iterable[tuple[Value, Value | None]]:
    """Return the values of an operand, each with its gradient."""
    if isinstance(given, ConvertedTerm):
        assert not isinstance(argument, tuple)  # noqa: S101 - a rule gives a list for a list
        return [(argument, given.value)]
    assert isinstance(argument, tuple)  # noqa: S101 - as above
    return [(value, None if one is None else one.value) for value, one in zip(argument, given, strict=True)]


def check_type(node: Node, value: Output, gradient: Value) -> None:
    """Check that a rule gave a gradient of its operand's type; one of integers that stand for numbers is a float.

    Raises:
        GraphError: It is of another.
    """
    wanted = value.type
    if gradient.type.shape == wanted.shape and (gradient.type.dtype == wanted.dtype or not is_float(wanted.dtype)):
        return
    raise GraphError(
        f"the rule of {node.op.name} gave a gradient of a different type than the operand has",
        seen=str(gradient.type),
        limit=str(wanted),
    )


def nodes_between(roots: Sequence[Output], stop: frozenset[Key]) -> list[Node]:
    """Return the nodes that roots reach without passing a value of the frontier, each after those that it reads."""
    ordered: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root.node, False) for root in roots if key_of(root) not in stop]
    while stack:
        node, ready = stack.pop()
        if node in ordered:
            continue
        if ready:
            ordered[node] = None
            continue
        stack.append((node, True))
        stack.extend(
            (source.node, False)
            for source in node.sources()
            if key_of(source) not in stop and source.node not in ordered
        )
    return list(ordered)


class GradientPlace(ConversionSite):
    """The place of a node whose gradient is taken: what is known beforehand is computed at once."""

    def __init__(self, node: Node, incoming: Sequence[Value | None] = (), wanted: Iterable[str] = ()) -> None:
        super().__init__(Conversion(None), node, depth=1)
        self.incoming = incoming
        self.wanted = frozenset(wanted)

    @property
    def outputs(self) -> tuple[ConvertedTerm, ...]:
        """The results of the operation."""
        return tuple(ConvertedTerm(self, Tensor(self.node, index)) for index in range(len(self.node.types)))

    def wants(self, operand: str) -> bool:
        """Return whether anything asks for the gradient of an operand."""
        return operand in self.wanted

    def several(self, name: str, *operands: object, **attributes: object) -> tuple[ConvertedTerm, ...]:
        """Return all results of an operation; of constants it is computed, and a product with one number is `muls`.

        A product with 0 is x − x: that with the constant, after a reduction, is known not to compile.
        """
        entry = find_op(name)
        bound = dict(bind_operands(entry, operands, attributes))
        values = [one for value in bound.values() for one in (value if isinstance(value, tuple) else (value,))]
        if values and all(isinstance(one, Constant) for one in values):
            return self.folded(name, operands, attributes)
        if name == "mul":
            simpler = self.scaled(*values)
            if simpler is not None:
                return (simpler,)
        if name == "muls" and attributes["k"] == 0:
            return self.several("sub", values[0], values[0])
        return super().several(name, *operands, **attributes)

    def tensor(self, term: ConvertedTerm) -> Tensor:
        """Return a term as a tensor: a constant of one number is filled in, and another one is copied."""
        if not isinstance(term.value, Constant):
            return super().tensor(term)
        number = uniform(term.value)
        made = (
            super().several("identity", term)
            if number is None
            else super().several("fill", shape=term.shape, value=number, dtype=term.dtype)
        )
        return super().tensor(made[0])

    def folded(
        self, name: str, operands: Sequence[object], attributes: Mapping[str, object]
    ) -> tuple[ConvertedTerm, ...]:
        """Return the results of an operation on constants."""
        node = super().several(name, *operands, **attributes)[0].value
        assert isinstance(node, Output)  # noqa: S101 - an operation gives a tensor
        arrays = {
            key: tuple(map(wide_values, one)) if isinstance(one, tuple) else wide_values(one)
            for key, one in node.node.operands.items()
        }
        results = node.node.op.evaluate(arrays, node.node.attributes)
        return tuple(
            self.constant(one, kind.dtype) if is_float(kind.dtype) else exact(self, one, kind.dtype)
            for one, kind in zip(results, node.node.types, strict=True)
        )

    def scaled(self, x: Value, y: Value) -> ConvertedTerm | None:
        """Return a product as that with a number, where one factor is the same number everywhere."""
        for tensor, factor in ((x, y), (y, x)):
            number = uniform(factor)
            if number is not None and np.broadcast_shapes(tensor.type.shape, factor.type.shape) == tensor.type.shape:
                term = ConvertedTerm(self, tensor)
                return term if number == 1 else self.op("muls", term, k=number)
        return None

    def through(self, way: str | Callable[..., object]) -> list[ConvertedTerm | list[ConvertedTerm | None] | None]:
        """Return the gradients of the operands, taken through another form of the operation."""
        build_terms = way
        if isinstance(build_terms, str):
            chosen = self.node.op.decomposition(build_terms)
            assert chosen is not None  # noqa: S101 - rules name decompositions of their own entry, which a test tries
            build_terms = chosen.build
        results = terms_as_tensors(self, build_terms)
        sources = [key_of(source) for source in self.node.sources()]
        wanted = [
            key_of(value) for name, value in self.node.values() if name in self.wanted and isinstance(value, Output)
        ]
        seeds: dict[Key, Value] = {}
        for result, one in zip(results, self.incoming, strict=True):
            if one is not None:
                key = key_of(result)
                seeds[key] = one if key not in seeds else sum_of(self.node, seeds[key], one)
        roots = [result for result in results if key_of(result) in seeds]
        found = Passage(roots, wanted, sources).run(seeds)

        def take_gradient(value: Value) -> ConvertedTerm | None:
            # An operand that is there twice is given its whole gradient once.
            one = found.pop(key_of(value), None) if isinstance(value, Output) else None
            return None if one is None else ConvertedTerm(self, one)

        arguments = [self.node.operands.get(operand.name) for operand in self.node.op.operands]
        return [
            None
            if one is None
            else [take_gradient(value) for value in one]
            if isinstance(one, tuple)
            else take_gradient(one)
            for one in arguments
        ]


def terms_as_tensors(site: GradientPlace, build_terms: Callable[..., object]) -> list[Tensor]:
    """Return the results of a function of the node's operands and attributes."""
    operands = [site.argument(site.node.operands.get(operand.name)) for operand in site.node.op.operands]
    made = build_terms(site, *operands, **site.node.attributes)
    terms = [made] if isinstance(made, ConvertedTerm) else cast("Sequence[ConvertedTerm]", made)
    return [site.tensor(term) for term in terms]


def exact(place: GradientPlace, values: Array, dtype: str) -> ConvertedTerm:
    """Return integers or booleans as a constant."""
    return ConvertedTerm(place, Dense(np.asarray(values, numpy_dtype(dtype), order="C")))


def wide_values(value: Value) -> Array:
    """Return a constant's numbers in the type of the mathematics."""
    assert isinstance(value, Constant)  # noqa: S101 - only constants are folded
    values = value.dense()
    return values.astype(np.float64) if is_float(value.type.dtype) else values


def uniform(value: Value) -> float | None:
    """Return the number that a constant is everywhere; None where it is not one."""
    if not isinstance(value, Dense) or not value.values.size or not is_float(value.type.dtype):
        return None
    values = value.values
    first = values.flat[0]
    return float(first) if values.size == 1 or bool(np.all(values == first)) else None


def place_of(node: Node) -> GradientPlace:
    """Return a site that builds nodes at the place of another."""
    return GradientPlace(node)


def sum_of(node: Node, first: Value, second: Value) -> Value:
    """Return the sum of two gradients of one value."""
    place = place_of(node)
    return place.op("add", ConvertedTerm(place, first), ConvertedTerm(place, second)).value


def key_of(value: Output) -> Key:
    """Return the node and the number of a result."""
    return value.node, value.index


def rule_of(node: Node) -> Gradient | NoGradient | None:
    """Return how gradients pass through a node, or why none does; None where its entry does not say."""
    return None if node.op.gradient is None else node.op.gradient()


def is_straight(node: Node) -> bool:
    """Return whether gradients pass through the integers that a node gives."""
    rule = rule_of(node)
    return isinstance(rule, Gradient) and rule.straight


def name_of(tensor: Tensor) -> str:
    """Return the name of an input, or what kind of tensor it is."""
    name = tensor.node.attributes.get("name")
    return repr(name) if isinstance(name, str) else repr(tensor)


def tensors_of(given: Tensor | Iterable[Tensor], what: str) -> list[Tensor]:
    """Return tensors that a caller gave as one or as several.

    Raises:
        GraphTypeError: Something else was given, or integers.
    """
    listed = [given] if isinstance(given, Tensor) else given
    if not isinstance(listed, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError(f"{what} must be tensors", seen=type(given).__name__)
    found = list(listed)
    for one in found:
        if not isinstance(one, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError(f"{what} must be tensors", seen=type(one).__name__)
        if what != "stop":
            expect_float_tensor(one, what)
    return found


def expect_float_tensor(tensor: Tensor, what: str) -> None:
    """Check that a tensor holds floating-point numbers.

    Raises:
        GraphTypeError: It does not.
    """
    if not is_float(tensor.dtype):
        raise GraphTypeError(
            f"{what} must be of floating-point numbers; other types have no gradients",
            operation=tensor.op,
            location=tensor.node.location,
            seen=f"{name_of(tensor)} of {tensor.dtype}",
            remedy='use dtype="fp16"',
        )
