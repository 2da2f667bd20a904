"""The entries themselves, one module per group of operations. An `Op` declared here is part of the table."""
