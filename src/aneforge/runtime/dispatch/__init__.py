"""Doors through which other programs reach the engine: what they load or start is here, and it needs nothing of theirs.

`invokers` are the executables that run a network description, one call each or many; `invoker_scripts` installs them.
"""
