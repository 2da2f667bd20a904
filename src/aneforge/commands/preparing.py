"""A model in the form that options of `af.compile` ask for, before a command works on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.commands.model_and_targets import title_of_place
from aneforge.graph.graph import PLACEHOLDERS
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.commands.model_and_targets import Subject
    from aneforge.targets import Place

__all__ = ["Preparation", "prepare_subject"]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Options of `af.compile` that change a graph, or refuse it."""

    opt: str | int | None = None
    compress: str | None = None
    rescale: str | None = None
    strict: bool = False


def prepare_subject(subject: Subject, places: Sequence[Place], asked: Preparation) -> tuple[Subject, tuple[str, ...]]:
    """Return a model as `af.compile` would make it with these options for the first place, and what was done.

    >>> import aneforge as af
    >>> from aneforge.commands.model_and_targets import subject_of
    >>> made, remarks = prepare_subject(subject_of(af.input((1, 4), name="x").relu()), [], Preparation())
    >>> len(made.graph.nodes), remarks
    (2, ())

    Raises:
        GraphError: An option has a value that there is not.
        NotSupportedError: Two options do not go together.
        StrictCompileError: `strict` found something that it does not allow.
    """
    if asked == Preparation():
        return subject, ()
    from aneforge.runtime.building import prepare_graph  # noqa: PLC0415 - few commands change the graph
    from aneforge.runtime.compile import compile as expect_strict  # noqa: PLC0415 - as above
    from aneforge.runtime.options import Options, check_options  # noqa: PLC0415 - as above

    options = check_options(Options(opt=asked.opt, compress=asked.compress, rescale=asked.rescale))
    if asked.strict:
        expect_strict(
            subject.graph,
            target=places[0],
            strict=True,
            opt=asked.opt,
            compress=asked.compress,
            rescale=asked.rescale,
        )
    made = prepare_graph(subject.graph, places[0], options)
    given = (("opt", asked.opt), ("compress", asked.compress), ("rescale", asked.rescale))
    done = ", ".join(f"{name} {value}" for name, value in given if value is not None)
    before, after = (
        [node.op.name for node in one.nodes if node.op.name not in PLACEHOLDERS] for one in (subject.graph, made.graph)
    )
    became = f"{len(before)} operations became {len(after)}" if before != after else "no operation changed"
    others = f" (of {len(places)} chips the first)" if len(places) > 1 else ""
    remarks = [f"{done} for {title_of_place(places[0])}{others}: {became}"] if done else []
    if made.weights:
        worst = max(made.weights, key=lambda one: one.error)
        remarks.append(f"{len(made.weights)} weights encoded, relative error at most {worst.error:.2g} ({worst.label})")
    return replace(subject, half=replace(subject.half, graph=made.graph)), (*remarks, *made.remarks)
