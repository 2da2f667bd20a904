"""The Apple Neural Engine in the open: compile, run bit for bit, predict and explain its programs on any machine.

This module is the public face. Its names are listed once, in `__init__.pyi`, and imported when they are first asked
for, so that `import aneforge` stays cheap and pulls in no framework.

>>> import aneforge as af
>>> x = af.input((1, 3, 32, 32))
>>> (x * 2.0).relu().shape
(1, 3, 32, 32)
"""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs] - it has none; `__init__.pyi` types what it attaches

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType] - as above
