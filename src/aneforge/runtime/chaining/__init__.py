"""Chaining: how the engine could run layer after layer without the host. The request classes of a study, as a model.

`_ANEChainingRequest` and what belongs to it are closed to third parties, and the study that looked at them ended at
Code 15. This room has its classes. A leading underscore is private in Python, so they are spelt without it, and have
the study's exact names as data: `class_named("_ANEBuffer")`, `study_name(ANEBuffer)`; `class_evidence` says which
experiments each rests on. Every call ends as the study saw it end, and says why. In simulation only, a model has
a symbol table, and chains run on the software engine: every output of that says *simulated*.

`chaining_plan` is the planner, which needs none of the classes. Names are listed in `__init__.pyi` and imported when
they are first asked for: reading the study needs none either.
"""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs] - it has none; `__init__.pyi` types what it attaches

find_listed, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType] - as above


def __getattr__(name: str) -> object:
    """Return a listed name, or a class by its exact name: `getattr(chaining, "_ANEBuffer")` finds it."""
    from aneforge.runtime.chaining.chaining_study import class_named, study  # noqa: PLC0415 - imported when asked for

    return class_named(name) if name in study().classes else find_listed(name)
