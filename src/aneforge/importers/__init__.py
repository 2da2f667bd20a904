"""Model files of other tools, read into graphs."""
