"""Facts about operations live in entries of the op table: no room keeps a list of operations of its own.

What is found here is any set, dict, tuple or list, at the top of a module or inside a function, most of whose strings
are names of operations or of kinds of layers, three or more of them. What may stay says why.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from aneforge.compiler.ir.catalogue import kinds
from aneforge.ops.table import ops

LEAST = 3
NAMES = {*ops(), *kinds()}
Literal = ast.Set | ast.Dict | ast.Tuple | ast.List
LISTING = (
    *(ast.Set, ast.Dict, ast.Tuple, ast.List, ast.Starred, ast.BinOp, ast.Call),
    *(ast.DictComp, ast.SetComp, ast.ListComp, ast.GeneratorExp, ast.comprehension),
)

ALLOWED: dict[str, tuple[str, ...]] = {
    "gives each operation its code in this room: arithmetic, lowering, spelling, cutting, ranges": (
        "formats/mil/forms.py:FORMS",
        "formats/hwx/emission/",
        "formats/netplist/",
        "compiler/ir/calls.py:OWN_FORMS",
        "compiler/ir/meanings/convolution_meanings.py:FORMS",
        "compiler/ir/meanings/regions.py:FORMS",
        "compiler/lower/",
        "compiler/memory/task_places.py:CHAINS",
        "compiler/passes/axis_groups.py:FORMS",
        "compiler/passes/cuts.py:CUTS",
        "engine/activations.py:ACTIVATIONS",
        "engine/crop.py:FOR_TARGET",
        "engine/cuda/device_operations.py:Operations",
        "engine/cuda/device_operations.py:TABLED",
        "engine/cuda/integer_layers.py:OF_INTEGERS",
        "engine/cuda/primitives.py:COMPARISONS",
        "engine/cuda/primitives.py:PAIRS",
        "engine/doubts.py:CHOICES_AMONG_ZEROS",
        "engine/doubts.py:ZERO_BOUNDS",
        "engine/execution/layers.py:EXACT_PAIRS",
        "engine/kernels/operations.py:FUNCTIONS",
        "engine/kernels/operations.py:REDUCTIONS",
        "engine/kernels/prepared.py:PAIRS",
        "engine/neuron.py:FUNCTIONS",
        "engine/normalisation.py:FOR_TARGET",
        "engine/planar.py:FUNCTIONS",
        "engine/pooling.py:FOR_TARGET",
        "engine/products.py:BY_PRODUCTS",
        "engine/products.py:DOUBTS",
        "engine/products.py:DOUBTS_OF_VALUES",
        "engine/products.py:FOR_TARGET",
        "engine/quantised.py:FUNCTIONS",
        "engine/reductions.py:FOR_TARGET",
        "engine/reductions.py:FUNCTIONS",
        "formats/mil/constexpr.py:FORMS",
        "formats/mil/conventions.py:CONVENTIONS",
        "analysis/divergence/kinds.py:FILLED",
        "analysis/divergence/possible.py:PAIRS",
        "analysis/ranges/geometry.py:GEOMETRY",
        "analysis/ranges/inner.py:INNER",
        "analysis/ranges/pointwise.py:PAIRS",
        "analysis/ranges/sums.py:SUMS",
        "optimise/forms/canonical.py:CANON",
        "runtime/hwx/",
    ),
    "translates another vocabulary: names of a format, or modes of an operation, that are spelt as operations are": (
        "compiler/validators/checks/products.py:MODES",
        "engine/kernels/operations.py:combine",
        "engine/planar.py:MODES",
        "engine/planar.py:scaled",
        "formats/onnx/",
        "formats/torch/",
        "formats/hwx/interpreter/steps.py:PAIRS",
        "formats/hwx/interpreter/steps.py:Reduction",
        "runtime/hwx/task_arithmetic.py:combine",
        "formats/shared/reducing.py:KEEPING",
        "formats/shared/reducing.py:OF_NOTHING",
        "formats/shared/reducing.py:REAL",
        "analysis/ranges/pointwise.py:scaled",
        "llm/llama_form.py:ACTIVATIONS",
    ),
    "says what a format asks, of the operations that its own documents name": (
        "formats/mil/dialect.py:CHECKS",
        "formats/mlpackage/mlpackage_dialect.py:CHECKS",
        "formats/mlpackage/mlpackage_dialect.py:NORMS",
        "formats/mil/checks.py:encoded_weights_keep_their_shape",
        "formats/mil/checks.py:epsilon_is_of_the_parameters_type",
        "formats/mil/constexpr.py:COMPOSED",
        "formats/mil/rows.py:(CAST, GATHER, SCATTER)",
    ),
    "is what one formula holds for, written below it": (
        "compiler/passes/constants_to_gain_offset.py:as_affine",
        "compiler/passes/merge_activations.py:merge",
        "analysis/divergence/graphs.py:order_bound",
        "analysis/heuristic.py:PRODUCTS",
        "analysis/heuristic.py:SIZES",
        "optimise/rescaling/",
    ),
    "builds the programs whose figures were published, by the names that the figures have": (
        "commands/fingerprint_recipes.py:RECIPES",
        "commands/measured_programs.py:one_operation",
    ),
    "is what Hypothesis draws from": ("testing/",),
}
"""Why a list may stay, and where; a folder stands for all that is in it."""


def strings(node: ast.AST) -> Iterator[str]:
    """Return the strings that a literal lists, or a call or a union of literals: elements, keys and values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, LISTING):
        for part in ast.iter_child_nodes(node):
            yield from strings(part)


def lists_names(node: ast.expr) -> bool:
    """Return whether a literal, or a call or union of literals, is a list of operations."""
    found = set(strings(node))
    return len(found & NAMES) >= LEAST and 2 * len(found & NAMES) >= len(found)


def tables(tree: ast.Module) -> Iterator[str]:
    """Return where a module lists operations: the name that is assigned, or the function that holds it."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                name = ast.unparse(target)
                if name != "__all__" and lists_names(value):
                    yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                inner = (one for one in ast.walk(statement) if isinstance(one, Literal))
                if any(lists_names(one) for one in inner):
                    yield name
            case _:
                continue


@cache
def found(source: Path) -> set[str]:
    """Return every place of the package that lists operations."""
    modules = (path for path in sorted(source.rglob("*.py")) if path.relative_to(source).parts[0] != "ops")
    return {
        f"{path.relative_to(source).as_posix()}:{name}"
        for path in modules
        for name in tables(ast.parse(path.read_text("utf-8")))
    }


def is_allowed(place: str, allowed: str) -> bool:
    """Return whether a place is one that may stay, or lies in a folder that may."""
    return place.startswith(allowed) if allowed.endswith("/") else place == allowed


def test_facts_about_operations_are_in_their_entries(repository: Path) -> None:
    allowed = [place for places in ALLOWED.values() for place in places]
    others = [one for one in found(repository / "src/aneforge") if not any(is_allowed(one, known) for known in allowed)]
    assert others == [], "state the fact in the entries of ops/groups, or say here why it stays"


def test_the_exceptions_are_still_there(repository: Path) -> None:
    places = found(repository / "src/aneforge")
    listed = [place for places in ALLOWED.values() for place in places]
    assert [known for known in listed if not any(is_allowed(one, known) for one in places)] == []
    assert len(listed) == len(set(listed))


def test_lists_are_found() -> None:
    text = """
A = {"relu", "abs", "exp"}
B = frozenset((*("relu", "abs"), "exp")) | {"tanh"}
C = {"relu": 1.0, "abs": 2.0, "exp": 3.0}
D = ("relu", "abs")
E = ["height", "width", "relu", "depth", "abs", "exp", "rows"]
def f(name):
    return name in ("relu", "abs", "exp")
"""
    assert list(tables(ast.parse(text))) == ["A", "B", "C", "f"]
