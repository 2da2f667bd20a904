"""The notebook of the examples runs from its first cell to its last, and shows what it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from pathlib import Path

nbclient = pytest.importorskip("nbclient", reason="the extra `test` brings what executes notebooks")
nbformat = pytest.importorskip("nbformat", reason="the extra `test` brings what reads notebooks")


@pytest.mark.filterwarnings("ignore")
def test_every_cell_runs(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository / "src"))
    notebook = nbformat.read(repository / "examples" / "tutorial.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not kept in the repository"
    nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [cast("dict[str, Any]", one) for cell in notebook.cells for one in cell.get("outputs", ())]
    pages = "".join(str(one["data"].get("text/html", "")) for one in outputs if "data" in one)
    assert "M4 (h16g): runs yes" in pages
    assert "(4, 0)" in [one["data"].get("text/plain") for one in outputs if "data" in one]
