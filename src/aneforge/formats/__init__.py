"""Formats of other tools: each folder has the reader, the writer and the dialect of one."""
