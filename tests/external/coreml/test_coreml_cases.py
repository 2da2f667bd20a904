"""coremltools' own operator tests: their programs mean here what they are expected to give on Core ML.

`make test` runs some, drawn once and always the same; with `--refresh-results` all are run and the table is rewritten.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from external.coreml.judging import EQUAL, RESULTS, Judged, Outcome, read_rows, rows_text

DRAWN = 60
"""Tests that `make test` runs; some make several comparisons, some none."""
EQUAL_LEAST = 2000
TESTS = Path(__file__).parent.parent.parent
FAILED = (Outcome.WRONG, Outcome.BROKEN)
coremltools = importlib.util.find_spec("coremltools")
needs_coremltools = pytest.mark.skipif(coremltools is None, reason="coremltools, which has the cases, is not installed")


def judged(folder: Path, drawn: int, shards: int) -> list[Judged]:
    """Run the tests in processes of their own, and return what became of their comparisons."""
    assert coremltools is not None
    assert coremltools.submodule_search_locations
    cases = Path(coremltools.submodule_search_locations[0], "converters", "mil", "mil", "ops", "tests")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    out, scratch = folder / "judged.jsonl", folder / "scratch"
    scratch.mkdir()
    environment = os.environ | {
        "ANEFORGE_COREML_DRAWN": str(drawn),
        "ANEFORGE_COREML_OUT": str(out),
        "INCLUDE_MIL_FP32_UNIT_TESTS": "1",
        "PYMIL_TEST_TARGETS": "mlprogram",
        "PYTHONPATH": str(TESTS),
        "TMPDIR": str(scratch),  # coremltools leaves a package there for every case
    }
    plugins = ["-p", "external.coreml.plugin", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    options = ["-c", str(folder / "pytest.ini"), "-q", "-W", "ignore", "-n", str(shards), "--tb=line"]
    command = [sys.executable, "-m", "pytest", *options, *plugins, str(cases)]
    run = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    shutil.rmtree(scratch)
    assert out.exists(), run.stdout[-2000:] + run.stderr[-2000:]
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return [
        Judged(one["test"], tuple(one["operators"]), Outcome(one["outcome"]), one["reason"], one["detail"])
        for one in lines
    ]


@needs_coremltools
def test_the_programs_mean_what_is_expected(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    refresh = bool(request.config.getoption("--refresh-results"))
    results = judged(tmp_path, 0 if refresh else DRAWN, 2 if refresh else 0)
    if refresh:
        RESULTS.write_text(rows_text(results), encoding="utf-8")
    failed = [f"{one.test}: {one.detail}" for one in results if one.outcome in FAILED]
    assert not failed, "\n".join(failed)
    assert len(results) >= DRAWN // 3
    rows = read_rows()
    recorded = {(row.test, row.outcome, row.reason) for row in rows}
    assert not [one for one in results if (one.test, one.outcome.value, one.reason) not in recorded]


def test_enough_cases_are_equal_and_none_is_wrong() -> None:
    counts: Counter[str] = Counter()
    for row in read_rows():
        counts[row.outcome] += row.cases
    assert sum(counts[outcome] for outcome in EQUAL) >= EQUAL_LEAST
    assert counts[Outcome.WRONG] == counts[Outcome.BROKEN] == 0
