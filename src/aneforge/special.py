"""The documented import path `aneforge.special`. Names only; `aneforge.graph.special` holds the code."""

from aneforge.graph.special import (
    bessel_i0,
    bessel_j0,
    bessel_k0,
    cos,
    erf,
    erfc,
    exp_wide,
    expm1,
    gamma,
    gamma_via_lgamma,
    lgamma,
    log1p,
    log_wide,
    sin,
)

__all__ = [
    "bessel_i0",
    "bessel_j0",
    "bessel_k0",
    "cos",
    "erf",
    "erfc",
    "exp_wide",
    "expm1",
    "gamma",
    "gamma_via_lgamma",
    "lgamma",
    "log1p",
    "log_wide",
    "sin",
]
