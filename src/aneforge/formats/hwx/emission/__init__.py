"""From operations and shapes to task descriptors: the rules by which programs of Apple's compiler are made.

Every function here knows shapes and constants, not graphs. Nothing is keyed by a shape: a word is a rule of the
parameters, or a constant that all known programs share. Source: hwx-programs, sections 4 and 8 to 10.
"""
