"""Network descriptions (netplists, schema version 1.0.10): reader, writer and dialect."""
