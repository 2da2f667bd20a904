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
"""


def test_a_model_that_is_called_loads_no_reader_writer_gradient_or_way_to_another_device() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CALLED],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ANEFORGE_CACHE_BYTES": "0"},
    )
    assert set(run.stdout.split()) == {
        "aneforge.formats.mil",
        "aneforge.formats.mil.dialect",
        "aneforge.formats.mil.resizing",
        "aneforge.optimise.forms",
        "aneforge.optimise.forms.canonical",
        "aneforge.optimise.forms.native_attention",
    }


EXPLAINED = """
from aneforge.commands.explaining import explain
for words in (["ANE-EXTENT-001"], ["m1"], ["segment"], ["limit", "max_tensor_dim"]):
    explain(words)
"""


def test_rules_chips_words_and_limits_are_explained_without_arrays_or_operations() -> None:
    assert asked_for_by(EXPLAINED).isdisjoint({"numpy", "ml_dtypes", *HEAVY})
    assert "numpy" in asked_for_by(EXPLAINED.replace("ANE-EXTENT-001", "relu"))
