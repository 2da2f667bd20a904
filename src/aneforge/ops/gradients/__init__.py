"""Gradients by groups; the entries of the op table name them, and a module is read when one of it is needed."""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs] - it has none; `__init__.pyi` types what it attaches

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType] - as above
