"""Counts what is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aneforge.runtime import compile as compiling

if TYPE_CHECKING:
    import pytest

    import aneforge as af


def count_compiles(monkeypatch: pytest.MonkeyPatch) -> list[af.Graph]:
    """Return a list that every graph is added to when it is compiled."""
    compiled: list[af.Graph] = []
    build = compiling.build_or_find

    def counted(graph: af.Graph, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - passed on
        compiled.append(graph)
        return build(graph, *given, **named)

    monkeypatch.setattr(compiling, "build_or_find", counted)
    return compiled
