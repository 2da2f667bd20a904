"""What the command line shows, as data: one function for each command, one report of a model on several targets.

Names are listed in `__init__.pyi` and imported when they are first asked for.

>>> import aneforge as af
>>> from aneforge.report import check
>>> check(af.input((1, 4), name="x").relu(), af.targets.Family.A13).targets[0].ok
True
"""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs] - it has none; `__init__.pyi` types what it attaches

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType] - as above
