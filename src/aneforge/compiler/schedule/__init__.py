"""In which order the layers of a program run, in which partitions, and which of them run together."""
