"""The committed reference pages are what the database and the rules say now."""

from pathlib import Path

import pytest

import reference_pages


@pytest.mark.parametrize("name", sorted(reference_pages.pages()))
def test_page_is_not_stale(name: str) -> None:
    committed = (reference_pages.FOLDER / name).read_text(encoding="utf-8")
    assert committed == reference_pages.pages()[name], "run make docs-tables"


def test_no_page_is_left_over() -> None:
    generated = {path.name for path in reference_pages.FOLDER.glob("*.md") if is_generated(path)}
    assert generated == set(reference_pages.pages())


def is_generated(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith(reference_pages.GENERATED)


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert "a\\|b" in reference_pages.markdown(("x",), [("a|b",)])
