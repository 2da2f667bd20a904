"""From a graph to a program for one target; `compile` is its front door, `retarget` makes a graph legal there."""
