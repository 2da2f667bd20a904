"""Draws that depend on nothing but their seed.

Hypothesis mixes constants of the project's loaded modules into what it draws. Which modules are loaded depends on which
tests ran before in the same process, so a case that fails could not be drawn again by its number, and a test could pass
or fail by its neighbours. No setting switches that off (hypothesis 6.170), so it is done here.
"""

from __future__ import annotations

from hypothesis.internal import constants_ast
from hypothesis.internal.conjecture import providers

__all__ = ["steady_draws"]


def steady_draws() -> None:
    """Let Hypothesis draw without the constants of this project, in this process."""
    nothing = constants_ast.Constants()
    providers._get_local_constants = lambda: nothing  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
