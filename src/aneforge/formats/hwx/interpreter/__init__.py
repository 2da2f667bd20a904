"""What the tasks of a container do to memory: the part that running a file and reading it as a graph share.

`understanding` turns tasks into steps, `coefficients` and `activation_tables` read what they hold, `task_memory` is
the memory that they work on, `walking` goes through them. `lifting` makes a graph of them. What runs them is in
`aneforge.runtime.hwx`.
"""
