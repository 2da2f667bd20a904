"""Random numbers: where the engine draws none, the host feeds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.evidence import Evidence, EvidenceKind
from aneforge.ops.decomposition import Decomposition

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term

__all__ = ["MASK_OF_HOST", "NUMBERS_OF_HOST"]

HOST = Evidence(EvidenceKind.DECODED, "guide ch. 35", note="Drawn on the host and passed as an input.")


def mask_of_host(to: Site, x: Term, *, rate: float, **_: object) -> Term:
    """Return a product with a mask that is an input."""
    return x * to.supplied(x.type, f"{1 / (1 - rate):g} with probability {1 - rate:g}, else 0, per element")


def numbers_of_host(to: Site, *, low: float, high: float, **_: object) -> Term:
    """Return numbers that are an input."""
    return to.supplied(to.results[0], f"uniform numbers from {low} to {high}")


MASK_OF_HOST = Decomposition("host", "a product with a mask from the host", mask_of_host, HOST, supplies=True)
NUMBERS_OF_HOST = Decomposition("host", "numbers from the host", numbers_of_host, HOST, supplies=True)
