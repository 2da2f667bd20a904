"""Fuzzes the readers of ML packages and of model files: they read what they are given, or raise one error.

    python tools/fuzz_mlpackage.py --corpus folder            write model files to begin with
    python tools/fuzz_mlpackage.py folder -max_total_time=480 fuzz with atheris (`pip install atheris`)

A file is a model file, a separator and a weights blob. What atheris finds becomes a test in
`tests/unit/formats/mlpackage/test_mlpackage_bad_files.py`.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

import aneforge as af
from aneforge.errors import AneforgeError
from aneforge.formats.detection import detect_format
from aneforge.formats.mlpackage.mlpackage_model import parse_model
from aneforge.formats.mlpackage.package import model_of
from aneforge.ops.table import ops
from fuzz_mil import SEPARATOR, check_message, one_operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuzz_mil import Fuzzer

FOLDER = Path(tempfile.gettempdir(), "fuzz_mlpackage")


def check(data: bytes) -> None:
    """Read a model file.

    Raises:
        AssertionError: An error is no sentence.
    """
    content, _, blob = data.partition(SEPARATOR)
    weights = FOLDER / "weights" / "weight.bin"
    weights.parent.mkdir(parents=True, exist_ok=True)
    weights.write_bytes(blob)
    (FOLDER / "model").write_bytes(content)
    try:
        detect_format(FOLDER / "model")
    except AneforgeError as error:
        check_message(error)
    try:
        package = parse_model(content, "fuzz.mlmodel", FOLDER, FOLDER)
    except AneforgeError as error:
        check_message(error)
        return
    for function in package.functions:
        try:
            package.graph(function)
        except AneforgeError as error:
            check_message(error)


def corpus(samples: int = 2) -> Iterator[tuple[str, bytes]]:
    """Yield model files to begin with: some of every operation, and one with a state and compressed weights."""
    generator = np.random.default_rng(0)
    for name, op in ops().items():
        for number in range(samples):
            try:
                model, blob = model_of({"main": one_operation(op, generator)}, port_casts=False)
            except AneforgeError:
                continue  # what has no form in Core ML is not a model
            yield f"{name}_{number}", model.SerializeToString(deterministic=True) + SEPARATOR + blob.tobytes()
    x = af.input((1, 4), name="x")
    total = af.state("total", (1, 4)) + x
    model, blob = model_of({"main": af.Graph({"y": total}, {"total": total})}, port_casts=False)
    yield "state", model.SerializeToString(deterministic=True) + SEPARATOR + blob.tobytes()


def main() -> None:
    """Write the corpus, or fuzz."""
    if sys.argv[1:2] == ["--corpus"]:
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in corpus():
            (folder / name).write_bytes(data)
        return
    atheris = cast("Fuzzer", importlib.import_module("atheris"))  # needed here alone, and without types
    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
