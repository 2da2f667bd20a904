"""Execution streams: several operations under one call, ports and buffers that stay, events, other processes.

The level is that of the real runtime's C interface, and so is its state machine. `operations` binds ports, `stream`
encodes and runs, `events` report completion, `multi` runs several steps in one call, `resident` makes states of a
graph into ports that share buffers, `handoff` passes a program to another process.
"""
