"""Models: compiled programs that run, on the software engine or behind whichever backend a machine has.

`compile` makes a model of a graph, `files` keeps one, `cache` remembers those that were made, `program` is the level
below: ports, buffers, one execution. Streams of several programs build on that level.
"""
