"""Weights in fewer bytes: the encodings, which of them a weight takes, and what becomes of it on a target."""
