"""Compiled containers (HWX, magic 0xbeefface): the file that an engine loads, read and written byte for byte."""
