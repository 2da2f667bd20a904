"""Runs compiled programs: every layer with the arithmetic of its target, every slot in its order."""
