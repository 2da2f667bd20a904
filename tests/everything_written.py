"""Write all that a few small networks become into the current folder: verdicts, changes, files of every form, results.

`tests/unit/test_determinism.py` runs this twice, in processes that differ in what must not matter.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.compiling import EMITTERS, compile_model
from aneforge.compiler.retarget import retarget
from aneforge.engine.kernels.library import using
from aneforge.errors import AneforgeError
from aneforge.graph.node import build
from aneforge.report.forms import FORMS, NETRON, written_form
from aneforge.targets import resolve
from llama_block import llama_block
from transformer import encoder
from unet import unet

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGETS = ("h13", "h16s")
"""One that rebuilds many operations, and one that has most of them."""


def overflowing() -> af.Graph:
    """Return operations that older families rebuild, around a product whose sums leave the range of fp16."""
    drawn = np.random.default_rng(0)
    x = af.input((1, 16, 8, 8), name="x")
    weights = drawn.standard_normal((16, 16, 3, 3)) * 40
    y = af.conv(x * 30.0, weights, pad=1).group_norm(np.ones(16), np.zeros(16), num_groups=4)
    return af.Graph({"y": y.sin().softmax(1), "z": y.reduce_log_sum_exp(1)})


def refused() -> af.Graph:
    """Return operations of which no target runs all."""
    x = af.input((1, 8, 1, 70_000), name="x")
    return af.Graph({"y": x.relu(), "z": af.Tensor(build("sinh", {"x": x})), "t": af.Tensor(build("tan", {"x": x}))})


def convolutions() -> af.Graph:
    """Return layers that all have known programs, so that the forms of compiled programs are written too."""
    drawn = np.random.default_rng(0)
    x = af.conv(af.input((1, 8, 8, 8), name="x"), drawn.standard_normal((16, 8, 3, 3)), pad=1).relu()
    return af.Graph({"y": af.conv(x, drawn.standard_normal((24, 16, 1, 1)), stride=2).mean((2, 3))})


def networks() -> Mapping[str, af.Graph]:
    """Return the networks by name."""
    return {
        "encoder": encoder(length=8, width=32, layers=1, heads=2),
        "llama_block": llama_block(width=64, heads=2, places=8),
        "unet": unet(size=16, channels=(8, 16)),
        "convolutions": convolutions(),
        "overflowing": overflowing(),
        "refused": refused(),
    }


def write_verdicts(graph: af.Graph, folder: Path) -> None:
    """Write what all targets say of a graph."""
    (folder / "preflight.txt").write_text("\n".join(map(repr, af.preflight_all(graph).values())))
    report = check(graph, TARGETS, CheckOptions(deep=True, placement="coreml"))
    for form in FORMS:
        if form != NETRON:
            written = written_form(form, report)
            (folder / f"report.{form}").write_bytes(written.encode() if isinstance(written, str) else written)


def write_program(graph: af.Graph, target: str, folder: Path) -> None:
    """Write what one target makes of a graph: the changes, each form of the program, and two models of it."""
    (folder / "changes.txt").write_text("\n".join(map(repr, retarget(graph, resolve(target)).changes)))
    for form in EMITTERS:
        try:
            made = compile_model(graph, target, form, folder / f"emitted.{form}")
        except AneforgeError as error:
            (folder / f"{form}.refusal.txt").write_text(str(error))
        else:
            (folder / f"{form}.notes.txt").write_text(f"{made.rebuilt}\n{made.notes}")
    write_model(af.compile_multi(graph, target=target, build_dir=folder / "tuned", opt=2), folder / "tuned")
    write_model(
        af.compile_multi(graph, target=target, build_dir=folder / "compressed", compress="auto"), folder / "compressed"
    )


def write_model(model: af.MultiModel, folder: Path) -> None:
    """Write what a model says and computes into the folder of its artifacts."""
    drawn = np.random.default_rng(1)
    samples = [drawn.standard_normal(model.input_view(name).shape) for name in model.inputs]
    (folder / "outputs").write_bytes(b"".join(output.tobytes() for output in model(*samples).values()))
    (folder / "remarks.txt").write_text("\n".join(model.remarks))


def main(threads: int) -> None:
    """Write everything, the kernels on so many threads."""
    with using(threads=threads):
        for name, graph in networks().items():
            Path(name).mkdir()
            write_verdicts(graph, Path(name))
            for target in () if name == "refused" else TARGETS:
                folder = Path(name, target)
                folder.mkdir()
                write_program(graph, target, folder)
        folder = Path("rescaled")
        write_model(af.compile_multi(overflowing(), target=TARGETS[0], build_dir=folder, rescale="auto"), folder)


if __name__ == "__main__":
    main(int(sys.argv[1]))
