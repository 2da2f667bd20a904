"""`demo`: the embedded models, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.demo_networks import NETWORKS, network
from aneforge.targets import database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aneforge.report.model import Report
    from aneforge.targets import TargetLike

__all__ = ["demonstrated", "first_chips"]


def first_chips() -> list[str]:
    """Return the first chip of every generation of desktop engines: those that others are named after.

    >>> len(first_chips()) == len(set(first_chips())) > 3
    True
    """
    keys = list(database().chips)
    bases = {key.partition("-")[0] for key in keys if "-" in key}
    letters = {base[0] for base in bases if f"{base}-max" in keys}
    return [key for key in keys if key[0] in letters and "-" not in key]


def demonstrated(
    name: str | None = None,
    targets: Iterable[TargetLike] | None = None,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Report, ...]:
    """Return the reports of the embedded models, or of one, on the first chip of every generation.

    >>> report, = demonstrated("keyword-spotter")
    >>> [target.ok for target in report.targets][:1]
    [False]

    Raises:
        UnknownNameError: There is no such model.
    """
    chosen = list(NETWORKS) if name is None else [name]
    names = first_chips() if targets is None else targets
    return tuple(
        check(network(one), names, CheckOptions(name=f"{one} (embedded)"), progress=progress) for one in chosen
    )
