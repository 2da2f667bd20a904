"""From a graph to the layers of a program: one to one for most operations, a few layers for the others."""
