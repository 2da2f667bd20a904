"""Models: compiled programs that run, on the software engine or on whichever backend a machine has.

From the user inwards:

- `compile` makes a `model` of a graph: `options` checks what was asked, `building` compiles, `facts` is what a model
  knows of itself; `hazards` finds what must be said of it.
- `saved` keeps programs: files, and the cache of those that were made before.
- `program` is the level below models: `ports` with buffers, one execution at a time; `slots` and `processes` say how
  many programs a process holds, and which process may.
- `executables`, `backends` and `devices` run a program; `paths` says which way is for what.
- `streams` run several programs under one call.
- `dispatch` is for other programs: what they start or load to reach the engine.
"""
