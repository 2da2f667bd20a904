"""The engine's arithmetic on NVIDIA GPUs, bit for bit that of the golden model.

A program becomes a plan (`plans`): launches of kernels, buffers and constants, all plain data. `primitives` lays out
the launches of one step of arithmetic, `product_launches` sums of products, `device_operations` makes the operations of
the table of them, by the compositions of the golden model and the CPU kernels, `meanings` those that have their
mathematics alone, and `planned_layers` whole layers. `device` runs plans through CuPy, `executable`
hands values over and says how sure they are. `native` holds the kernels in CUDA C.

Every array has a leading axis of samples that the program does not know of, so that many run at a time.
"""
