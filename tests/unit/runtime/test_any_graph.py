"""Any graph: it compiles or is refused in one clear error, and a model gives what the engine gives, saved or not."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.exactness import labels_of_layers
from aneforge.compiler.ir.printing import program_text
from aneforge.errors import AneforgeError
from aneforge.optimise.forms.canonical import canonical
from aneforge.testing.graphs import graphs
from aneforge.testing.networks import networks

if TYPE_CHECKING:
    from aneforge.ops.types import Array
    from aneforge.runtime.model import AnyModel
    from aneforge.testing.graphs import DrawnGraph

TARGETS = st.sampled_from(["h13", "h14", "h16g"])
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def called(model: AnyModel, drawn: DrawnGraph) -> dict[str, Array]:
    """Call a model with drawn values, and return its outputs by name."""
    given_values = [drawn.inputs[name] for name in model.inputs if name in drawn.inputs]
    found = model(*given_values)
    return found if isinstance(found, dict) else {model.outputs[0]: found}


def same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    """Return whether outputs have the same bits."""
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def compiled(drawn: DrawnGraph, target: str, opt: str | int) -> AnyModel | None:
    """Return the model of a graph, or None where it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return af.compile(drawn.graph, target=target, opt=opt)
        except AneforgeError:
            return None


@QUICK
@given(drawn=graphs(most=4), target=TARGETS)
def test_operations_of_the_table(drawn: DrawnGraph, target: str) -> None:
    check(drawn, target)


@QUICK
@given(drawn=networks(most=8), target=TARGETS)
def test_networks(drawn: DrawnGraph, target: str) -> None:
    check(drawn, target)


def check(drawn: DrawnGraph, target: str) -> None:
    """Compile a graph, and compare what can be compared."""
    plain, routed = compiled(drawn, target, 0), compiled(drawn, target, "routes")
    if plain is None or routed is None:
        assert (plain is None) is (routed is None)
        return
    if any(node.operands and node.op.meaning is None for node in drawn.graph.nodes):
        return  # it compiles, and no source gives the mathematics that a run would need
    with plain, routed, tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = called(plain, drawn)
        assert same(called(routed, drawn), wanted), "canonical form changed a bit"
        again = af.load_program(plain.save(Path(folder) / "net"), backend="software")
        assert program_text(again.program) == program_text(plain.program)
        assert same(called(again, drawn), wanted)
        again.release()
        assert labels_of_layers(plain.program).keys() == {layer.name for layer in plain.layers}
        assert str(plain).startswith(repr(plain))


@QUICK
@given(drawn=graphs(most=6, among=["cast", "reshape", "transpose", "logical_not", "relu"]))
def test_canonical_form_means_the_same_and_is_stable(drawn: DrawnGraph) -> None:
    made = canonical(drawn.graph)
    assert len(made.nodes) <= len(drawn.graph.nodes)
    wanted, found = af.reference(drawn.graph, drawn.inputs), af.reference(made, drawn.inputs)
    assert same(found, wanted)
    assert canonical(made).text == made.text
