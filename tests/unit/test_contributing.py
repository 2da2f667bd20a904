"""CONTRIBUTING.md shows how to add things; here its own blocks are added, and they work."""

import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import aneforge as af
import reference_pages
from aneforge.formats.mil.program import load_mil
from aneforge.graph.node import build
from aneforge.ops import groups, table
from aneforge.rules import Operation, operations, preflight, rules_in
from aneforge.targets import Database, database, resolve
from aneforge.testing.graphs import DrawnGraph, graphs

BLOCK = re.compile(r'```\w+ title="(?P<title>[^"]+)"\n(?P<text>.*?)```', re.DOTALL)


@pytest.fixture
def blocks(repository: Path) -> dict[str, str]:
    page = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {match["title"]: match["text"] for match in BLOCK.finditer(page)}


@pytest.fixture
def extended(blocks: dict[str, str], tmp_path: Path) -> Database:
    """Return the database with every data block of the page appended to the file that it names."""
    folder = Path(shutil.copytree(database().folder, tmp_path / "data"))
    for title, text in blocks.items():
        if title.endswith(".toml"):
            with (folder / title).open("a", encoding="utf-8") as file:
                file.write(f"\n{text}")
    return Database(folder)


def test_the_new_target_has_its_tiers_parameters(extended: Database) -> None:
    target = extended.targets["h22"]
    assert target.cpu_subtype == 22
    assert target.limits.integer("max_tensor_dim") == resolve("h19").limits.integer("max_tensor_dim")


def test_the_new_chip_stands_for_its_target(extended: Database) -> None:
    assert extended.chips["m7"].target == "h19"
    assert extended.chips["m7"].evidence.kind == "inferred"


def test_the_new_field_answers_by_name_and_offset(extended: Database) -> None:
    assert extended.targets["h13"].hal.at(0x8C1) is False
    assert extended.targets["h14"].hal.flag("mirrored_padding") is True
    assert extended.targets["h14"].evidence("mirrored_padding").on == ("M2 Pro",)


def test_the_new_rule_is_found_and_fires(blocks: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "paddings.py"
    path.write_text(blocks["checks/paddings.py"], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("paddings", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (declared,) = rules_in([module]).values()
    finding = declared.check(Operation("pad", attributes={"width": 29}), resolve("m1"))
    assert finding is not None
    assert finding.message == "pad adds 29 columns; h13 adds at most 28."
    assert declared.check(Operation("pad", attributes={"width": 28}), resolve("m1")) is None


@pytest.fixture
def extended_table(blocks: dict[str, str], tmp_path: Path) -> Iterator[set[str]]:
    """Add the page's group of operations to the package for one test; yield the names of the catalogue before."""
    before = set(af.OP_CATALOG)
    for module in ("powers", "swishes"):
        (tmp_path / f"{module}.py").write_text(blocks[f"groups/{module}.py"], encoding="utf-8")
    caches = (table.ops, table.names, operations.catalogue, preflight.rules_about)
    groups.__path__.append(str(tmp_path))
    for cached in caches:
        cached.cache_clear()
    yield before
    groups.__path__.remove(str(tmp_path))
    for cached in caches:
        cached.cache_clear()
    assert set(af.OP_CATALOG) == before


def test_the_new_operation_has_everything(extended_table: set[str]) -> None:
    x = af.input((3,))
    y = af.Tensor(build("cube", {"x": x}))
    assert af.reference(y, [np.array([1.0, -2.0, 3.0])])["y"].tolist() == [1.0, -8.0, 27.0]
    assert af.preflight(y, "m1").ok
    assert af.op_info("cube").summary == "x³"
    assert set(af.OP_CATALOG) - extended_table == {"cube"}
    assert "| `cube` " in reference_pages.operations_page()
    graph = af.Graph({"y": y})
    assert af.Graph.parse(str(graph)) == graph

    @settings(max_examples=20, deadline=None, derandomize=True)
    @given(graphs(among=["cube"]))
    def fuzz(drawn: DrawnGraph) -> None:
        assert all(np.isfinite(value).all() for value in af.reference(drawn.graph, drawn.inputs).values())

    fuzz()


@pytest.mark.usefixtures("extended_table")
@pytest.mark.filterwarnings("ignore")
def test_the_new_composite_is_known_everywhere(tmp_path: Path) -> None:
    y = af.Tensor(build("hard_swish", {"x": af.input((1, 4, 4, 8), name="x", max_abs=4.0)}))
    values = np.linspace(-4, 4, 128).reshape(1, 4, 4, 8).astype(np.float16)
    exact = af.reference(y, {"x": values.astype(np.float64)})["y"]
    assert af.preflight(y, "m1").ok
    model = af.compile(y, target="m1")
    assert np.abs(model(values) - exact).max() < 0.01
    written = {
        "MIL": load_mil(af.save_mil(y, tmp_path / "mil").parent).graph(),
        "Core ML": af.load_model(af.save_mlpackage(y, tmp_path / "net.mlpackage")),
        "description": af.load_netplist(af.save_netplist(y, tmp_path / "netplist")),
    }
    for name, graph in written.items():
        assert "hard_swish" not in {node.op.name for node in graph.nodes}, name
    for name in ("MIL", "Core ML"):
        again = af.compile(written[name], target="m1")(values)
        assert isinstance(again, np.ndarray)
        assert np.array_equal(again, model(values)), name
    last = af.ranges(y, target="m1").layers[-1].range
    assert last.low <= exact.min()
    assert exact.max() <= last.high < np.inf
    assert str(af.divergence(y, "m1", "m1-max").verdict) == "none"
    assert af.cost(y, "m1").microseconds > 0
    assert "| `hard_swish` " in reference_pages.operations_page()


def test_the_table_is_as_before() -> None:
    assert "cube" not in table.ops()
    assert "cube" not in af.OP_CATALOG
