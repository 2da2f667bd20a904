"""Runs compiled containers: their own tasks, with the arithmetic of the software engine."""
