"""The op table: one declarative entry per operation, one module per group of operations."""
