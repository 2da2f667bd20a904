"""Ways from a process to an engine, and from other processes to ours, which need nothing of theirs.

The dispatch library (`native/`, C) has the ABI by which clients reach the Neural Engine, and answers from our engine:
`library` says where it lies, `worker` is the process behind it, `programs` what that process holds.
`invokers` are the executables that run a network description, one call each or many; `invoker_scripts` installs them.
"""
