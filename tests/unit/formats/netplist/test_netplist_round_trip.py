"""Description, graph, description, graph: for every layer type with every parameter drawn, the meaning stays."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aneforge.errors import AneforgeError
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.structure import parse_document
from aneforge.formats.netplist.writing import Netplist, netplist
from aneforge.graph.reference import reference
from aneforge.testing.descriptions import DRAWN, descriptions

if TYPE_CHECKING:
    from aneforge.formats.netplist.sketch import Plain, Sketch
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array

pytestmark = [
    pytest.mark.filterwarnings("ignore:procedure .* no output depends:UserWarning"),
    pytest.mark.filterwarnings("ignore:unit .* SubtractMax is off:aneforge.errors.PrecisionWarning"),
]


def feed_of(graph: Graph) -> dict[str, Array]:
    """Draw values for the inputs of a graph."""
    generator = np.random.default_rng(5)
    return {
        name: generator.uniform(-4, 4, node.types[0].shape).astype(np.float16) for name, node in graph.inputs.items()
    }


def without_places(graph: Graph) -> str:
    """Return the text of a graph without the lines of its file."""
    return re.sub(r" at .*", "", str(graph))


@pytest.mark.parametrize("layer", sorted(DRAWN))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_meaning_stays(layer: str, data: st.DataObject) -> None:
    sketch: Sketch = data.draw(descriptions(layer))
    first = parse_netplist(sketch.data(), sketch.weights)
    assert without_places(first) == without_places(parse_netplist(sketch.data(binary=True), sketch.weights))
    written = netplist(first)
    second = parse_netplist(written.data(), written.weights)
    assert parse_document(written.data()) == parse_document(written.data(binary=True)) == written.document
    if layer == "MatrixDecomposition":  # its mathematics is unknown, so the operation itself is compared
        assert without_places(second) == without_places(first)
        return
    feed = feed_of(first)
    (before,), (behind,) = reference(first, feed).values(), reference(second, feed).values()
    assert (before.shape, before.dtype) == (behind.shape, behind.dtype)
    # Sums of products may be added up in another order where axes lie otherwise in memory.
    np.testing.assert_allclose(behind, before, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(descriptions(), st.booleans())
def test_a_document_is_written_as_it_was_read(sketch: Sketch, binary: bool) -> None:  # noqa: FBT001 - a parameter of the test
    document = parse_document(sketch.data())
    assert parse_document(Netplist(document).data(binary=binary)) == document


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(descriptions())
def test_a_third_time_nothing_changes(sketch: Sketch) -> None:
    written = netplist(parse_netplist(sketch.data(), sketch.weights))
    again = netplist(parse_netplist(written.data(), written.weights))
    third = netplist(parse_netplist(again.data(), again.weights))
    assert third.document == again.document
    assert third.weights == again.weights


WRONG: tuple[Plain, ...] = (0, -1, 2**63 - 1, 1.5, "", "Width", [], {}, True, b"x", "x", 3)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(descriptions(), st.data())
def test_any_value_may_be_missing_or_wrong(sketch: Sketch, data: st.DataObject) -> None:
    places = [(container, key) for container in containers(sketch.root) for key in keys_of(container)]
    container, key = data.draw(st.sampled_from(places))
    kept = cast("dict[object, Plain]", container)
    if data.draw(st.booleans()):
        del kept[key]
    else:
        kept[key] = data.draw(st.sampled_from(WRONG))
    with suppress(AneforgeError):
        assert parse_netplist(sketch.data(), sketch.weights).outputs


def containers(root: Plain) -> list[dict[str, Plain] | list[Plain]]:
    """Return every dictionary and list of a description that is not empty."""
    found: list[dict[str, Plain] | list[Plain]] = []
    stack = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, dict | list) and value:
            found.append(value)
            stack += value.values() if isinstance(value, dict) else value
    return found


def keys_of(container: dict[str, Plain] | list[Plain]) -> list[str] | list[int]:
    """Return what a dictionary or a list is asked by."""
    return list(container) if isinstance(container, dict) else list(range(len(container)))
