"""Which tests run over every way to the engine: the tables are whole, and a test runs by the way that it is given."""

from __future__ import annotations

import aneforge as af
from every_way import EXCEPTIONS, MODULES, OTHER_MODULES, RUNTIME, TESTS, WAYS, load_here


def test_every_module_has_its_place() -> None:
    found = {path.relative_to(RUNTIME).as_posix() for path in RUNTIME.rglob("test_*.py")}
    assert found == {*MODULES, *OTHER_MODULES}
    assert not set(MODULES) & set(OTHER_MODULES)


def test_the_tables_name_tests_that_there_are() -> None:
    for name in (*TESTS, *(test for tests in EXCEPTIONS.values() for test in tests)):
        module, test = name.split("::")
        assert f"def {test}(" in (RUNTIME / module).read_text(encoding="utf-8"), name


def test_a_test_runs_by_its_way(way_to_the_engine: str) -> None:
    with af.compile(af.input((1, 4)).relu(), target="h13") as model:
        assert model.backend == way_to_the_engine
    with load_here(af.input((1, 4)).relu(), "h13") as program:
        assert program.eval([[1, -1, 2, -2]])["y"].tolist() == [[1, 0, 2, 0]]
    assert way_to_the_engine in WAYS
