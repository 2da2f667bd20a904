"""What an installed package must do: `python release_smoke.py [golden]`, by the interpreter that it was installed for.

It imports nothing of a checkout. With `golden` the libraries must be missing, which the first run must say.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import aneforge as af
from aneforge.commands.doctoring import doctor
from aneforge.engine.kernels.library import MissingKernelsWarning
from aneforge.errors import NotSupportedError
from aneforge.report import check, outcome, save, written_form
from aneforge.runtime.dispatch.library import library_path

EXPECTED = {"m1": float("inf"), "m4": 5000.0}
"""The right half of a row of 5000s, read through a slice: measured on chips of both kinds."""


def check_slices() -> None:
    """Run one slice on two chips; they differ, exactly."""
    right = af.split(af.input((1, 1, 1, 8), name="x"), 2, axis=3)[1]
    for chip, expected in EXPECTED.items():
        result = af.run(af.build_program({"y": right}, chip), {"x": np.full((1, 1, 1, 8), 5000.0)})
        assert result.outputs["y"].ravel().tolist() == [expected] * 4, (chip, result.outputs)


def run_network() -> None:
    """Compile and run a convolution, which is what the kernels are for."""
    kernel = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float16)
    x = af.input((1, 8, 8, 8), name="x")
    values = np.ones((1, 8, 8, 8), np.float16)
    result = af.run(af.build_program({"y": af.conv(x, kernel)}, "m4"), {"x": values})
    assert np.isfinite(result.outputs["y"]).all()


def warnings_of_runs() -> list[str]:
    """Run programs; return what was warned of missing kernels, once in a process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_slices()
        run_network()
    return [str(one.message) for one in caught if issubclass(one.category, MissingKernelsWarning)]


def write_report() -> None:
    """Check a model and write every form that needs no further package, the page among them."""
    report = check(af.input((1, 8, 1, 17_000), name="x").relu(), ["m1", "m4"])
    assert not outcome(report).ok
    with tempfile.TemporaryDirectory() as folder:
        for form in ("html", "json", "sarif", "markdown", "junit"):
            path = Path(folder) / form
            save(path, written_form(form, report))
            assert path.stat().st_size > 0


def main() -> None:
    """Check the installed package, and print what was found."""
    golden = "golden" in sys.argv[1:]
    checkout = Path(__file__).parent.parent
    assert not Path(af.__file__ or "").is_relative_to(checkout), f"{af.__file__} is not an installed package"
    warned = warnings_of_runs()
    write_report()
    found = doctor()
    assert found.ok is not golden, found.kernels
    assert len(warned) == golden, warned
    print(f"aneforge {found.version}, kernels: {found.kernels}")  # noqa: T201 - what this program is for
    if golden:
        try:
            library_path()
        except NotSupportedError as error:
            print(error)  # noqa: T201 - as above
            return
        raise AssertionError("there is a dispatch library, built without a compiler")
    if sys.platform == "linux":
        ctypes.CDLL(str(library_path()))


if __name__ == "__main__":
    main()
