"""Layers whose form is the compiler's own: shape rule and meaning of each, one file per group."""
