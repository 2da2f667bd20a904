"""Every public class and function says what it is and shows itself in an example; nothing floods a terminal."""

import inspect
import textwrap
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import aneforge as af
from aneforge import hwx
from aneforge.rules import Operation, TensorType, check, explain
from aneforge.targets import Family
from aneforge.targets.database import database
from aneforge.targets.names import chip

PINNED = Path(__file__).parents[1] / "golden" / "test_public_api"
"""One file of names for each public module: `test_public_names[module].txt`."""
LINES_MOST = 40
TERMINAL = 120
"""Columns at which a long line counts as several."""


@cache
def documented() -> dict[str, object]:
    """Return every public class and function once, by the first public name that it has."""
    found: dict[int, tuple[str, object]] = {}
    for module in map(import_module, sorted(path.stem.split("[")[1][:-1] for path in PINNED.glob("*.txt"))):
        for name in module.__all__:
            value = inspect.unwrap(getattr(module, name)) if callable(getattr(module, name)) else None
            if inspect.isclass(value) or inspect.isfunction(value):
                found.setdefault(id(value), (f"{module.__name__}.{name}", value))
    return dict(found.values())


def own_docstring(value: object) -> str:
    """Return what a class or function says itself; what a class inherits does not count."""
    return str(vars(value).get("__doc__") or "") if inspect.isclass(value) else value.__doc__ or ""


def samples() -> dict[str, object]:
    """Return objects that users print, each of a graph that is small and has everything."""
    x = af.input((1, 16, 8, 8), name="x")
    emitted = hwx.emit(x.relu(), Family.A13, style="v5")
    container = emitted.files[0].container
    task = hwx.tasks_of(container)[0]
    wide = Operation("relu", results=(TensorType((1, 1, 1, 70_000)),))
    deep = x
    for _ in range(100):
        deep = (deep * 0.5).relu() + x
    return {
        "emitted program": emitted,
        "emitted file": emitted.files[0],
        "container": container,
        "port": container.ports[0],
        "task": task,
        "meaning": hwx.meaning(task),
        "driver file": hwx.ane_of(container),
        "run of a container": hwx.execute(container, {"x": np.zeros((1, 16, 8, 8))}),
        "model": af.compile(deep, target=Family.A16),
        "tensor": deep,
        "verdict": af.preflight(deep, Family.A16),
        "report": af.check(deep, Family.A16),
        "cost": af.cost(deep, Family.A16),
        "divergence": af.divergence(deep, Family.A13, Family.A16),
        "ranges": af.ranges(deep, target=Family.A16),
        "placement": af.placement(deep, Family.A16),
        "finding": check(wide, Family.A13)[0],
        "rule": explain("ANE-EXTENT-001"),
        "database": database(),
        "target": af.targets.resolve(Family.A16),
        "chip": chip("m1"),
        "clock": af.targets.resolve("m1").clock,
        "property": database().hal["texture_engine"],
    }


@pytest.mark.parametrize("name", documented())
def test_every_public_class_and_function_shows_itself_in_an_example(name: str) -> None:
    said = inspect.cleandoc(own_docstring(documented()[name]))
    assert said.splitlines()[:1], f"{name} has no docstring"
    assert any(line.startswith(">>> ") for line in said.splitlines()), f"{name} has no example"


def test_what_users_print_fits_on_a_screen() -> None:
    lines = {
        name: sum(max(1, len(textwrap.wrap(line, TERMINAL))) for line in str(one).splitlines())
        for name, one in samples().items()
    }
    assert {name: count for name, count in lines.items() if count > LINES_MOST} == {}
