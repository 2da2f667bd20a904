"""Language models: from a checkpoint to tokens, chip by chip, built only with public functions.

>>> import aneforge as af
>>> af.llm.names()[:3]
('gemma', 'gpt2', 'llama')
"""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs] - it has none; `__init__.pyi` types what it attaches

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType] - as above
