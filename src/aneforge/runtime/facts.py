"""What a model knows of itself in addition to its program: it is kept with the program when the model is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.errors import (
    DispatchFloorWarning,
    PrecisionWarning,
    SaturationWarning,
    SliceSaturationWarning,
)
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.graph.convert import SuppliedInput
    from aneforge.optimise.compress.graphs import WeightReport

__all__ = ["CATEGORIES", "Caution", "ModelFacts", "give_warnings"]

CATEGORIES: dict[str, type[UserWarning]] = {
    category.__name__: category
    for category in (DispatchFloorWarning, PrecisionWarning, SaturationWarning, SliceSaturationWarning)
}
"""The classes of warnings that compiling gives, by name."""


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning that compiling gave, kept with the model."""

    category: str
    """The name of its class."""
    message: str
    bounded: bool = False
    """It names an error that grows no further, such as that of a table; a validation lets it pass."""

    def __str__(self) -> str:
        return f"{self.category}: {self.message}"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model knows of itself in addition to its program."""

    n_ops: int
    """Operations of the graph that are fused into programs; those that need one of their own are not among them."""
    several: bool = False
    """It gives its outputs by name, as it was compiled with several."""
    warnings: tuple[Caution, ...] = ()
    remarks: tuple[str, ...] = ()
    """What compiling did in addition to making the program, such as which variant was chosen and why."""
    supplied: tuple[SuppliedInput, ...] = ()
    """Inputs that retargeting added, which the caller must feed."""
    weights: tuple[WeightReport, ...] = ()
    """What compression made of each weight."""


def give_warnings(cautions: Iterable[Caution]) -> None:
    """Give warnings, each cause once."""
    for caution in dict.fromkeys(cautions):
        warn(caution.message, CATEGORIES[caution.category])
