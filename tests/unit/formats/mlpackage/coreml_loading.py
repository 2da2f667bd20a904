"""Packages as coremltools itself loads them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LOADING = (
    "import sys, coremltools as ct\n"
    "from coremltools.converters.mil.frontend.milproto.load import load\n"
    "for path in sys.argv[1:]:\n"
    "    model = ct.models.MLModel(path, skip_model_load=True)\n"
    "    load(model.get_spec(), model.get_spec().specificationVersion, model.weights_dir)\n"
    "    print('loaded')\n"
)


def check_that_coremltools_loads(paths: Sequence[str]) -> None:
    """Check that coremltools reads every package and infers the types of its program, in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADING, *paths], capture_output=True, text=True, check=False
    )
    assert run.stdout.split() == ["loaded"] * len(paths), run.stderr[-2000:]
