"""`import aneforge` must not touch a framework, installed or not."""

import os
import subprocess
import sys

import pytest

HEAVY = ["torch", "onnx", "onnxruntime", "coremltools"]

WATCHER = """
import sys
from importlib.abc import MetaPathFinder

asked = set()

class Watcher(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        asked.add(name.partition(".")[0])

sys.meta_path.insert(0, Watcher())
{statement}
print(*sorted(asked))
"""


def asked_for_by(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter looks for while it runs a statement."""
    program = WATCHER.format(statement=statement)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "statement",
    ["import aneforge", "import aneforge; aneforge.targets.resolve(2)", "import aneforge; aneforge.rules.rules()"],
)
def test_no_framework_is_imported(statement: str) -> None:
    assert asked_for_by(statement).isdisjoint(HEAVY)


def test_the_watcher_sees_an_import() -> None:
    assert "torch" in asked_for_by("try:\n    import torch.nothing\nexcept ImportError: pass")


def test_the_face_imports_no_room_before_it_is_asked() -> None:
    program = "import sys, aneforge; print(*[name for name in sys.modules if name.startswith('aneforge.')])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


CALLED = """
import sys, numpy, aneforge as af
af.compile(af.input((1, 8), name="x").relu() + 1.0, target="m1")(numpy.ones((1, 8)))
rooms = ("formats", "runtime.dispatch", "optimise", "report", "commands", "ops.decompositions", "ops.gradients")
print(*[name for name in sys.modules if name.startswith(tuple(f"aneforge.{room}." for room in rooms))])
print(sum(name.partition(".")[0] == "aneforge" for name in sys.modules))
"""
MOST_CALLED = 319
"""Modules that compiling and calling a small model loads; more would make every first call slower."""


def test_a_model_that_is_called_loads_no_reader_writer_gradient_or_way_to_another_device() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CALLED],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ANEFORGE_CACHE_BYTES": "0"},
    )
    names, count = run.stdout.splitlines()
    assert int(count) <= MOST_CALLED
    assert set(names.split()) == {
        "aneforge.formats.mil",
        "aneforge.formats.mil.dialect",
        "aneforge.optimise.forms",
        "aneforge.optimise.forms.canonical",
        "aneforge.optimise.forms.native_attention",
    }


EXPLAINED = """
import sys
from aneforge.cli.main import run
for words in sys.argv[1:]:
    assert run(["explain", *words.split()]) == 0, words
print(*sys.modules)
"""
ENTRIES = ("ops.groups",)
DERIVED = ("ops.decompositions", "ops.gradients")
COMPILER = ("compiler.ir", "compiler.passes")
ROOMS = ("analysis.cost", "analysis.machine", "engine", "formats", "graph", *ENTRIES, *DERIVED, *COMPILER)
ALONE = (
    *("ANE-EXTENT-001", "ANE-RANGE-001", "C8", "hal 0x81d", "limit max_tensor_dim", "datapath winograd_on_width"),
    *("geometry engines_per_die", "m1", "target h13", "A14 family", "segment", "route chaining"),
    *("chaining", "chaining _ANEBuffer", "chaining W1"),
)
BY_ENTRIES = (
    *("Gemm", "torch.nn.functional.gelu", "validator Softmax", "guide", "e5rt"),
    "affine transform is not supported on this architecture",
)
SUBJECTS = [
    pytest.param(ALONE, (), id="what data say"),
    pytest.param(BY_ENTRIES, ENTRIES, id="names of operations"),
    pytest.param(("op softplus", "softmax", "reduce_log_sum_exp"), (*ENTRIES, *DERIVED), id="operations"),
    pytest.param(("pass fold-padding", "fold-padding"), (*ENTRIES, *DERIVED, *COMPILER), id="passes"),
]
"""What can be explained, and the rooms that the answers are in."""


def loaded_to_explain(*subjects: str) -> set[str]:
    """Return the modules that a fresh process has loaded when it has explained some things."""
    command = [sys.executable, "-c", EXPLAINED, *subjects]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(("subjects", "rooms"), SUBJECTS)
def test_what_is_explained_loads_no_array_and_no_room_that_the_answer_is_not_in(
    subjects: tuple[str, ...], rooms: tuple[str, ...]
) -> None:
    loaded = loaded_to_explain(*subjects)
    assert loaded.isdisjoint({"numpy", "ml_dtypes", *HEAVY})
    used = {room for room in ROOMS for name in loaded if name.startswith(f"aneforge.{room}.")}
    assert used <= set(rooms)


def test_a_prediction_is_explained_by_compiling() -> None:
    assert {"numpy", "aneforge.compiler.pipeline", "aneforge.analysis.cost"} <= loaded_to_explain("chaining times")
