"""A user's metric: a Python function of a sample's outputs and its label, whose mean is reported."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from aneforge.errors import GraphError, Location
from aneforge.evaluation.samples import BadSampleError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array

__all__ = ["Metric", "MetricFunction", "measure", "metric_of"]

MetricFunction = Callable[["Mapping[str, Array]", "int | None"], float]
"""A function of the outputs by name, without the axis of the batch, and of the label: a number."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that another process can be sent: a function, the name of one in a module, or the text of its file."""

    name: str
    function: MetricFunction | None = None
    module: str = ""
    source: str = ""

    @property
    def identity(self) -> str:
        """What distinguishes it from another metric."""
        if self.function is None:
            return f"{self.module} {self.name} {hashlib.sha256(self.source.encode()).hexdigest()}"
        try:
            text = inspect.getsource(self.function)
        except (OSError, TypeError):  # one that was typed into an interpreter, or is not written in Python
            text = ""
        return f"{getattr(self.function, '__module__', '')} {self.name} {text}"

    def load(self) -> MetricFunction:
        """Return the function.

        Raises:
            GraphError: There is none of that name, or its module cannot be imported.
        """
        if self.function is not None:
            return self.function
        space: dict[str, object] = {"__name__": "aneforge_metric"}
        try:
            if self.source:
                exec(compile(self.source, self.module, "exec"), space)  # noqa: S102 - the user's own file, which they named
            else:
                space = vars(importlib.import_module(self.module))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code does
            raise GraphError("the metric cannot be imported", operation=self.module, seen=describe(error)) from None
        found = space.get(self.name)
        if not callable(found):
            raise GraphError("there is no such metric", operation=self.module, seen=self.name)
        return cast("MetricFunction", found)


def measure(metric: MetricFunction, outputs: Mapping[str, Array], label: int | None) -> float:
    """Return what a metric gives for a sample.

    Raises:
        BadSampleError: It raises, or gives what is not a number.
    """
    try:
        return float(metric(outputs, label))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code does
        raise BadSampleError(f"the metric raised {describe(error)}") from None


def metric_of(given: object) -> Metric | None:
    """Return a metric that is given as a function, as module:function, or as file.py:function.

    Raises:
        GraphError: It is none of these, or the file cannot be read.
    """
    if given is None or isinstance(given, Metric):
        return given
    if callable(given):
        return Metric(getattr(given, "__name__", "metric"), cast("MetricFunction", given))
    where, colon, name = str(given).rpartition(":")
    if not colon or not where or not name:
        raise GraphError("a metric is named module:function or file.py:function", seen=given)
    if not where.endswith(".py"):
        return Metric(name, module=where)
    try:
        return Metric(name, module=where, source=Path(where).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError("the metric cannot be read", location=Location(where), seen=describe(error)) from None


def describe(error: BaseException) -> str:
    r"""Return an error as one line.

    >>> describe(ValueError("too\nlong"))
    'ValueError: too'
    """
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
