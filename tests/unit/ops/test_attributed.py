"""Attributes in their types: what reads one as another type raises an error."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import aneforge as af
from aneforge.ops.attributed import Attributed, AttributeReader
from aneforge.ops.signature import AttributeValue
from aneforge.ops.windows import ConvAttributes, WindowAttributes


class Holder(Attributed):
    """Something that has attributes."""

    def __init__(self, **attributes: AttributeValue) -> None:
        self.attributes = attributes


def test_attributes_come_in_their_types() -> None:
    held = Holder(
        axis=-1, epsilon=1e-5, k=2, mode="EXACT", keep_dims=True, axes=(0, 1), left_out=None, mask=(True, False)
    )
    assert (held.integer("axis"), held.number("epsilon"), held.text("mode")) == (-1, 1e-5, "EXACT")
    assert isinstance(held.number("k"), float)
    assert held.flag("keep_dims") is True
    assert held.integers("axes") == held.optional_integers("axes") == (0, 1)
    assert held.optional_integers("left_out") is None
    assert held.optional_flags("mask") == (True, False)
    assert held.optional_flags("left_out") is None
    assert (held.optional_integer("left_out"), held.optional_integer("axis")) == (None, -1)
    assert (held.optional_text("left_out"), held.optional_text("mode")) == (None, "EXACT")
    assert (held.is_set("keep_dims"), held.is_set("left_out"), held.is_set("of another operation")) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        ("integer", True),
        ("integer", 1.5),
        ("number", "1"),
        ("number", False),
        ("text", 1),
        ("flag", 1),
        ("is_set", "true"),
        ("optional_text", 1),
        ("optional_integer", "1"),
        ("integers", None),
        ("integers", (1.5,)),
        ("integers", 3),
        ("optional_integers", ("a",)),
        ("optional_flags", (1, 0)),
    ],
)
def test_another_type_is_a_mistake(reader: str, value: AttributeValue) -> None:
    with pytest.raises(TypeError, match="attribute 'one' is"):
        getattr(Holder(one=value), reader)("one")


def test_nodes_and_layers_have_them() -> None:
    y = af.input((2, 3)).transpose((1, 0))
    assert y.node.integers("perm") == (1, 0)
    (layer,) = af.build_program(y, "m1").layers
    assert layer.integers("perm") == (1, 0)
    with pytest.raises(KeyError):
        layer.integer("axis")


def test_a_typed_dictionary_asks_for_the_names_that_it_must_have() -> None:
    window = AttributeReader({"strides": (2, 2), "pad_type": "same", "pad": None})
    assert window.attributes_as(WindowAttributes)["strides"] == (2, 2)
    with pytest.raises(TypeError, match=r"\['groups'\] are missing, so these are not ConvAttributes"):
        window.attributes_as(ConvAttributes)


def casts_of_attributes(text: str) -> Iterator[int]:
    """Yield the lines where an attribute is converted to a type, and not read in it."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in {"int", "float", "str", "bool", "cast"}:
            continue
        for given in node.args:
            read = given.func.value if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) else given
            read = read.value if isinstance(read, ast.Subscript) else read
            if isinstance(read, ast.Attribute) and read.attr == "attributes":
                yield node.lineno


def test_casts_are_found() -> None:
    text = """a = int(node.attributes["axis"])
b = cast("str", layer.attributes.get("mode"))
c = node.integer("axis")
d = dict(node.attributes)
"""
    assert list(casts_of_attributes(text)) == [1, 2]


def test_attributes_are_read_in_their_types(repository: Path) -> None:
    package = repository / "src" / "aneforge"
    found = [
        f"{path.relative_to(package)}:{line}"
        for path in package.rglob("*.py")
        if path.name != "attributed.py"
        for line in casts_of_attributes(path.read_text(encoding="utf-8"))
    ]
    assert found == []
