"""Language models for other tools: packages whose functions, prefill and decode, share one file of weights; MIL text.

The cache has two forms. *ports*: keys and values are inputs and outputs of decode, written by a product with 0 and 1,
and the caller gives an output's buffer to the next call. *states*: they are states of Core ML (ios18), which the
runtime keeps. Reports from users: the engine's compiler takes the first and refuses the second with error −14, after
which the step runs elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import aneforge as af
from aneforge.errors import GraphError, UnknownNameError
from aneforge.llm.decoder_programs import describe_refusal
from aneforge.llm.graphs.decoder import prefill_graph, step_graph
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.llm.graphs.decoder import DecoderPart
    from aneforge.llm.language_model import LanguageModel

__all__ = ["CACHE_FORMS", "PACKAGE", "Export", "export_model", "export_places"]

CACHE_FORMS: Mapping[str, str] = {
    "ports": "keys and values are ports with shared buffers; reported as accepted by the engine's compiler",
    "states": "keys and values are states (ios18); reported as refused by the engine's compiler (error -14)",
}
PACKAGE = ".mlpackage"


@dataclass(frozen=True, slots=True)
class Export:
    """What was written."""

    paths: tuple[str, ...]
    """A package or a folder of MIL text for each chunk."""
    functions: tuple[str, ...]
    weight_bytes: int
    """Bytes of all files of weights."""
    cache_form: str
    cache: str
    """What is reported of that form."""
    forms: str
    """The residual's scale and the form of its norms, and why."""


def export_model(
    model: LanguageModel, path: str | os.PathLike[str], *, lengths: Sequence[int] = (128,), cache: str = "ports"
) -> Export:
    """Write a model: `.mlpackage` for Core ML, any other name for a folder of MIL text with its weights.

    Functions are `prefill_N` for every length and `decode`. A model of several chunks becomes several packages, with
    the number of the chunk in their names. Where a layer has a memory, a prefill is a piece of a prompt: it reads and
    writes the cache as `decode` does, and is called piece after piece.

    Raises:
        GraphError: A length is not between 1 and the context.
        UnknownNameError: There is no such form of the cache.
        NotSupportedError: The target does not run a function.
        OSError: A file cannot be written.
    """
    if cache not in CACHE_FORMS:
        raise UnknownNameError.of("form of the cache", cache, CACHE_FORMS)
    for length in lengths:
        if not 1 <= length <= model.context:
            raise GraphError(
                "a length of prefill must be from 1 to the context",
                seen=length,
                limit=model.context,
                remedy="ask for a shorter prefill or a longer context",
            )
    target, written, places = Path(path), list[Path](), export_places(model, path)
    functions: dict[str, af.Graph] = {}
    for number, part in enumerate(model.parts):
        functions = part_functions(part, lengths, states=cache == "states")
        for name, graph in functions.items():
            # With states, decode is for other units: the form itself is reported as refused by the engine.
            if not graph.states:
                expect_runnable(model, name, graph)
        place = places[number]
        if target.suffix == PACKAGE:
            written.append(af.save_mlpackage(functions, place))
        else:
            written.append(af.save_mil(functions, place).parent)
    weights = sum(file.stat().st_size for place in written for file in place.rglob("*.bin"))
    paths = tuple(os.fspath(place) for place in written)
    return Export(paths, tuple(functions), weights, cache, CACHE_FORMS[cache], str(model.forms))


def export_places(model: LanguageModel, path: str | os.PathLike[str]) -> list[Path]:
    """Return where the chunks of a model are written."""
    target, count = Path(path), len(model.parts)
    if count == 1:
        return [target]
    return [target.with_stem(f"{target.stem}_{number}of{count}") for number in range(1, count + 1)]


def expect_runnable(model: LanguageModel, function: str, graph: af.Graph) -> None:
    """Check that the target runs a function as it is written.

    Raises:
        NotSupportedError: An operation is rejected there, or too large.
    """
    refusal = describe_refusal(graph, model.target, function)
    if refusal is not None:
        raise refusal


def part_functions(part: DecoderPart, lengths: Sequence[int], *, states: bool) -> dict[str, af.Graph]:
    """Return the functions of one chunk by name."""
    recurrent = part.config.recurrent
    graphs = {
        f"prefill_{length}": step_graph(part, length, states=states, last_row=True)
        if recurrent
        else prefill_graph(part, length)
        for length in lengths
    }
    graphs["decode"] = step_graph(part, states=states)
    return graphs
