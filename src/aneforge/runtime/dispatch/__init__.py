"""Ways from a process to an engine, and from other processes to ours, which need nothing of theirs.

The dispatch library (`native/`, C) has the ABI by which clients reach the Neural Engine, and answers from our engine:
`library` finds it, `worker` is the process that serves it, `programs` what that process holds.
`invokers` are the executables that run a network description, one call each or many; `invoker_scripts` installs them.

Clients are devices of `runtime.devices`: `abi` calls any library with that ABI, `espresso` the framework under it,
`in_memory_model` the Objective-C classes of Path A (through `objc`); `coreml` runs programs by Core ML. `doors` says
which of them serves which backend, and `native_calls` is what they share.
"""
