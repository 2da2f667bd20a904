"""Task descriptors: what the engine's task queue reads, one per task.

`layouts/` says for every generation which bits of which register are what; one codec reads them all. `meaning` says
what a task computes, `disassembly` prints it, `task_lint` holds it against the invariants of real programs.
"""
