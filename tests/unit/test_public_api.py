"""The public API is pinned: a name or signature changes only together with the golden text."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import aneforge
from golden_text import Golden

PUBLIC_MODULES = [
    "aneforge",
    "aneforge._targets",
    "aneforge.autograd",
    "aneforge.errors",
    "aneforge.evidence",
    "aneforge.hwx",
    "aneforge.llm",
    "aneforge.rules",
    "aneforge.runtime.chaining",
    "aneforge.special",
    "aneforge.streaming",
    "aneforge.targets",
]


EACH_BY_ITSELF = """
import os, sys, lark, ml_dtypes, msgspec, numpy, aneforge
for names in sys.argv[1:]:
    child = os.fork()
    if not child:
        os._exit(0 if all(hasattr(aneforge, name) for name in names.split()) else 1)
    if os.waitpid(child, 0)[1]:
        print(names)
"""
LISTED = re.compile(r"^from (?P<module>\S+) import (?P<name>\w+) as", re.MULTILINE)


def describe(value: object) -> str:
    if inspect.isclass(value):
        return "class"
    if inspect.isfunction(value):
        return str(inspect.signature(value))
    if inspect.ismodule(value):
        return "module"
    return type(value).__name__


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_public_names(name: str, golden: Golden) -> None:
    module = importlib.import_module(name)
    lines = [f"{public} {describe(getattr(module, public))}" for public in sorted(module.__all__)]
    golden("\n".join(lines) + "\n")


def test_every_public_name_is_importable_from_the_face() -> None:
    names = importlib.import_module("aneforge").__all__
    assert set(names) <= set(dir(aneforge))
    by_module: dict[str, list[str]] = defaultdict(list)  # names of one module come with one import
    for listed in LISTED.finditer(Path(aneforge.__file__).with_suffix(".pyi").read_text(encoding="utf-8")):
        by_module[listed["module"]].append(listed["name"])
    groups = [*by_module.pop("."), *(" ".join(group) for group in by_module.values())]
    assert sorted(" ".join(groups).split()) == sorted(names)
    run = subprocess.run([sys.executable, "-c", EACH_BY_ITSELF, *groups], capture_output=True, text=True, check=True)
    assert run.stdout == "", "names that only work once another import has happened"


def test_every_documented_name_of_reports_is_imported_and_typed_from_one_place() -> None:
    """The functions of commands keep their documented path; what types them and what imports them are two lists."""
    report = importlib.import_module("aneforge.report")
    assert report.__file__ is not None
    stub = ast.parse(Path(report.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    typed = {name.name: one.module for one in stub.body if isinstance(one, ast.ImportFrom) for name in one.names}
    assert typed == {name: getattr(report, name).__module__ for name in report.__all__}


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(aneforge, "nonsense")  # noqa: B009 - a name that no type checker would let through


def test_version_is_written_once_and_is_the_distributions() -> None:
    from importlib.metadata import version  # noqa: PLC0415 - slow to import, needed here alone

    assert aneforge.__version__ == version("aneforge-open")
