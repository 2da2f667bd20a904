"""CONTRIBUTING.md shows how to add things; here its own blocks are added, and they work."""

import importlib.util
import inspect
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given, settings

import aneforge as af
import reference_pages
from aneforge.commands.compiling import EMITTERS, Emitter, Form, Written, compile_model, refuse_one_file
from aneforge.commands.report_nodes import origins
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.pipeline import PIPELINE, Pipeline
from aneforge.compiler.retarget import Retargeted
from aneforge.errors import NotSupportedError
from aneforge.formats.detection import BEGINNINGS
from aneforge.formats.mil.program import load_mil
from aneforge.formats.model import READERS
from aneforge.graph.node import build
from aneforge.ops import groups, table
from aneforge.ops.op import Category
from aneforge.rules import Operation, operations, preflight, rules_in
from aneforge.targets import Database, database, resolve
from aneforge.testing.graphs import DrawnGraph, graphs
from legalisation_tools import assert_same_meaning, inputs_of
from written_tools import Drawn, Outcome, Writer, outcome_of

if TYPE_CHECKING:
    from aneforge.compiler.passes.base import Pass

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
    (declared,) = rules_in([module_of(blocks, "checks/paddings.py", tmp_path)]).values()
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
    y = x.apply("cube")
    assert all(isinstance(table.ops()[name].category, Category) for name in ("cube", "hard_swish"))
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


def module_of(blocks: dict[str, str], title: str, folder: Path) -> ModuleType:
    """Return a block of the page as a module."""
    path = folder / Path(title).name
    path.write_text(blocks[title], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_new_format_is_written_read_and_keeps_the_bits(
    blocks: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = module_of(blocks, "formats/listing.py", tmp_path)

    def write(retargeted: Retargeted, _: object, path: Path) -> Written:
        listing.save_listing(retargeted.graph, path)
        return Written(path)

    def form(graph: af.Graph) -> Form:
        held = listing.listing_graph(graph)
        return Form(held, origins(graph, held))

    emitter = Emitter(".listing", write, refuse_one_file, form)
    monkeypatch.setitem(cast("dict[str, Emitter]", EMITTERS), "listing", emitter)
    monkeypatch.setitem(BEGINNINGS, b"listing\n", "graph listing")

    def read(file: Path, _: Mapping[str, object]) -> af.Graph:
        return listing.load_listing(file)

    monkeypatch.setitem(cast("dict[str, object]", READERS), "graph listing", ((), read))
    y = (af.input((1, 8), name="x") * 3.0).l2_norm(-1)
    made = compile_model(y, "m1", output=tmp_path / "net.listing")
    assert made.emit == "listing"
    again = af.load_model(tmp_path / "net.listing")
    assert again.format == "graph listing"
    assert "l2_norm" not in {node.op.name for node in again.nodes}
    drawn = Drawn(af.Graph({"y": y}), {"x": np.linspace(-4, 4, 8, dtype=np.float16).reshape(1, 8)})
    assert outcome_of(drawn, Writer(emitter, af.load_model), "m1", tmp_path) is Outcome.SAME
    weighted = af.input((1, 8), name="x") @ np.ones((8, 8), np.float16)
    with pytest.raises(NotSupportedError, match="a listing cannot hold weights"):
        compile_model(weighted, "m1", output=tmp_path / "weighted.listing")


def test_the_new_pass_does_what_its_docstring_says(blocks: dict[str, str], tmp_path: Path) -> None:
    merge_relus: Pass = module_of(blocks, "passes/merge_relus.py", tmp_path).MergeRelus()
    before, after = (program_text(part) for part in re.split("Before:|After:", inspect.getdoc(merge_relus) or "")[1:])
    found = merge_relus(parse_program(before))
    assert str(found.program) == str(parse_program(after))
    assert not merge_relus(found.program).modified
    assert_same_meaning(parse_program(before), found.program, inputs_of(found.program), 0)
    y = af.input((1, 4), name="x").relu().relu()
    passes = Pipeline((merge_relus, *PIPELINE.passes))
    assert len(compile_graph(af.Graph({"y": y}), resolve("m1"), pipeline=passes).program.layers) == 1


def program_text(layers: str) -> str:
    """Return the program of layers from %t0 to %t2."""
    lines = "".join(f"  {line.strip()}\n" for line in layers.strip().splitlines())
    return f'program for h13 {{\n  input "x" = %t0 : fp16[1, 4]\n  segment 0:\n{lines}  output "y" = %t2\n}}\n'


def test_the_table_is_as_before() -> None:
    assert "cube" not in table.ops()
    assert "cube" not in af.OP_CATALOG
