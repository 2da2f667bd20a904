"""Rotary positions as `config.json` states them: in `rope_parameters` (newer) or `rope_theta` and `rope_scaling`."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from aneforge.errors import CheckpointError, Location, UnsupportedModelError
from aneforge.llm.architecture import RopeScaling, RopeSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.llm.settings import ModelSettings

__all__ = ["longest_positions", "read_rope"]

DEFAULT_BASE = 10000.0
DEFAULT_POSITIONS = 2048
EXTENDED = ("yarn", "dynamic")
SCALED_BY_LENGTH = ("dynamic", "yarn", "longrope")
LEAST_WIDTH, LEAST_POSITIONS = 2, 2
"""What the formulas of those scalings divide by is 0 there."""
OLD_NAMES: Mapping[str, str] = {"su": "longrope", "mrope": "default"}
"""Names of scalings in older files. Sections of `mrope` matter to images alone: for text all three are equal."""


def read_rope(settings: ModelSettings, head_width: int, *, fraction: float = 1.0) -> RopeSpec:
    """Return the rotary positions of a model, of whose heads a fraction is rotated unless the settings say otherwise.

    >>> from aneforge.llm.settings import ModelSettings
    >>> newer = {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}
    >>> read_rope(ModelSettings(newer, "config.json"), 64).base
    500000.0

    Raises:
        UnsupportedModelError: The scaling has a name that is not known.
        CheckpointError: A value that the scaling needs is missing or of another type.
    """
    stated = find_stated_parameters(settings)
    holder = stated if stated.has("rope_theta") else settings
    base = holder.number("rope_theta", DEFAULT_BASE)
    if base <= 1:
        raise holder.wrong("rope_theta", "above 1")
    width = rotated_width(settings, stated, head_width, fraction)
    scaling = get_scaling_name(stated)
    positions = settings.integer("max_position_embeddings", DEFAULT_POSITIONS)
    trained = stated.integer(
        "original_max_position_embeddings", settings.integer("original_max_position_embeddings", positions)
    )
    factor = stated.positive("factor", 1.0) if scaling in {"default", "longrope"} else stated.positive("factor")
    if scaling == "longrope" and not stated.has("factor"):
        factor = positions / trained
    lists = {name: stated.numbers(f"{name}_factor") for name in ("short", "long")}
    if scaling == "longrope":
        expect_factors(stated, lists, width // 2)
    if scaling in SCALED_BY_LENGTH and (width <= LEAST_WIDTH or trained < LEAST_POSITIONS):
        raise CheckpointError(
            f"the scaling {scaling} needs heads of which more than {LEAST_WIDTH} elements are rotated, and "
            f"{LEAST_POSITIONS} trained positions or more",
            location=Location(stated.source),
            seen=f"{width} elements, {trained} positions",
        )
    low, high = stated.positive("low_freq_factor", 1.0), stated.positive("high_freq_factor", 4.0)
    if scaling == "llama3" and high <= low:
        raise stated.wrong("high_freq_factor", f"above low_freq_factor, {low:g}")
    return RopeSpec(
        base=base,
        width=width,
        interleaved=settings.flag("rope_interleaved"),
        scaling=scaling,
        factor=factor,
        trained_positions=trained,
        low_frequency=low,
        high_frequency=high,
        fast=stated.positive("beta_fast", 32.0),
        slow=stated.positive("beta_slow", 1.0),
        truncate=stated.flag("truncate", default=True),
        attention_factor=stated.positive("attention_factor") if stated.has("attention_factor") else None,
        magnitude=stated.number("mscale") if stated.has("mscale") else None,
        magnitude_all=stated.number("mscale_all_dim") if stated.has("mscale_all_dim") else None,
        short_factors=lists["short"],
        long_factors=lists["long"],
    )


def longest_positions(settings: ModelSettings, rope: RopeSpec) -> int:
    """Return how many positions a model has: two scalings carry it beyond `max_position_embeddings`, by their factor.

    >>> from aneforge.llm.settings import ModelSettings
    >>> stated = {"max_position_embeddings": 32768, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}
    >>> settings = ModelSettings(stated, "config.json")
    >>> longest_positions(settings, read_rope(settings, 64))
    131072
    """
    stated = settings.integer("max_position_embeddings", DEFAULT_POSITIONS)
    if rope.scaling not in EXTENDED:
        return stated
    trained = rope.trained_positions if rope.scaling == "yarn" else stated
    return max(stated, int(trained * rope.factor))


def find_stated_parameters(settings: ModelSettings) -> ModelSettings:
    """Return the object that states the scaling, wherever a file keeps it.

    Raises:
        UnsupportedModelError: Kinds of layers have parameters of their own.
    """
    name = "rope_parameters" if settings.has("rope_parameters") else "rope_scaling"
    stated = settings.nested(name)
    if any(isinstance(one, dict) for one in stated.values.values()):
        raise UnsupportedModelError(
            "rotary positions that differ between kinds of layers are not supported here",
            location=Location(stated.source),
        )
    return stated


def rotated_width(settings: ModelSettings, stated: ModelSettings, head_width: int, fraction: float) -> int:
    """Return how many elements of a head are turned.

    Raises:
        CheckpointError: They are not pairs, or more than the head has.
    """
    part = stated.number("partial_rotary_factor", settings.number("partial_rotary_factor", fraction))
    width = int(head_width * part)
    if width % 2 or not 0 < width <= head_width:
        raise CheckpointError(
            f"rotary positions rotate pairs of the {head_width} elements of a head",
            location=Location(settings.source),
            seen=f"{width} elements",
            limit="an even number of them",
        )
    return width


def get_scaling_name(stated: ModelSettings) -> RopeScaling:
    """Return the name of the scaling.

    Raises:
        UnsupportedModelError: It is not known.
    """
    name = stated.text("rope_type", stated.text("type", "default"))
    name = OLD_NAMES.get(name, name)
    known: tuple[RopeScaling, ...] = get_args(RopeScaling)
    for one in known:
        if one == name:
            return one
    raise UnsupportedModelError(
        f"rotary positions of the type {name!r} are not supported here",
        location=Location(stated.source),
        limit=", ".join(known),
    )


def expect_factors(stated: ModelSettings, lists: Mapping[str, tuple[float, ...]], pairs: int) -> None:
    """Check that longrope has a factor for each pair.

    Raises:
        CheckpointError: It has not, or one is not positive.
    """
    for name, factors in lists.items():
        if not all(0 < one < float("inf") for one in factors):
            raise stated.wrong(f"{name}_factor", "a list of positive numbers")
        if len(factors) != pairs:
            raise CheckpointError(
                f"longrope needs one {name}_factor per pair",
                location=Location(stated.source),
                seen=f"{len(factors)} factors",
                limit=f"{pairs} pairs",
            )
