"""The validators of the engine's compiler: rules over the layers of a program, with the compiler's own refusals.

Three layers, as in the compiler: the exported validators (`validate`, `validate_layer`, `validate_program`), the
semantics that they are made of (the rules), and the check of a compiled program when it is loaded (`validate_at_load`).

The names are listed in `__init__.pyi` and imported when they are first asked for: compiling asks for one of them.
"""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs] - it has none; `__init__.pyi` types what it attaches

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType] - as above
