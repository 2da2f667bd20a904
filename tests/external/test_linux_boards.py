"""Host detection against every Apple board that Linux names in its device-tree bindings."""

import tomllib
from pathlib import Path

import pytest
from tabulate import tabulate

from aneforge.targets import Host, chip, detect_target

FOLDER = Path(__file__).parent / "linux"
RESULTS = FOLDER / "results.md"
BOARDS: list[dict[str, str]] = tomllib.loads((FOLDER / "apple-boards.toml").read_text(encoding="utf-8"))["boards"]
WITHOUT_AN_ENGINE_OF_THIS_COMPILER = {"A7", "A8", "A8X", "A9", "A9X", "A10", "A10X", "A11", "T2"}


def detected(board: dict[str, str]) -> str:
    compatible = (f"apple,{board['board']}", f"apple,{board['part']}", "apple,arm-platform")
    return detect_target(Host(compatible=compatible)).name


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["board"])
def test_board(board: dict[str, str]) -> None:
    if board["chip"] in WITHOUT_AN_ENGINE_OF_THIS_COMPILER:
        with pytest.warns(UserWarning, match="not known"):
            assert detected(board) == "h13"
    else:
        assert detected(board) == chip(board["chip"]).target


@pytest.mark.filterwarnings("ignore:the host's Neural Engine")
def test_the_result_table_is_current(request: pytest.FixtureRequest) -> None:
    rows = [(board["board"], board["part"], board["chip"], detected(board)) for board in BOARDS]
    table = tabulate(rows, ("board", "part", "chip", "target"), tablefmt="github") + "\n"
    if request.config.getoption("--refresh-results"):
        RESULTS.write_text(table, encoding="utf-8")
    assert RESULTS.read_text(encoding="utf-8") == table
