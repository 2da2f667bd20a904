"""Graphs of decoders: prefill, decode and verification, built of the public functions and methods of tensors alone."""
