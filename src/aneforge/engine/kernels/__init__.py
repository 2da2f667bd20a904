"""Fast kernels: the engine's arithmetic in C, bit for bit that of the golden model.

`matmul` and `convolution` multiply and accumulate; `elements` converts, looks up and combines pairs; `reductions` sums,
finds extremes and pools; `deconvolution`, `distances` and `norms` build on them. Each function stands for one of the
golden model, takes fp16 arrays, or uint16 arrays of their bits, and returns the same sort. `operations` makes
operations of the op table of them, `prepared` products of fixed shapes with what is after them. `library` finds the
library and says which paths (kinds of vectors) there are.

Its modules are loaded when something runs: what only asks how sure results are needs none of them.
"""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs] - it has none; `__init__.pyi` types what it attaches

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType] - as above
