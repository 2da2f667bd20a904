"""NumPy for modules that declare more than they compute: it is imported when something of it is first used.

An entry of the op table says what an operation means in NumPy's words; code that asks where it runs needs no array. The
import takes longer than all else that `aneforge explain softmax` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
else:

    class Numpy:
        """Stands for the module; what was looked up once is an attribute of it like any other."""

        def __getattr__(self, name: str) -> object:
            import numpy  # noqa: ICN001, PLC0415 - the abbreviation is what stands for it

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = Numpy()

__all__ = ["np", "numpy_function"]


def numpy_function(name: str) -> Callable[..., Any]:
    """Return NumPy's function of a name, for what is declared: it is looked up when it is called.

    >>> float(numpy_function("hypot")(3, 4))
    5.0
    """

    def call(*operands: Any, **options: Any) -> Any:  # noqa: ANN401 - what NumPy's functions take and return
        return getattr(np, name)(*operands, **options)

    return call
