"""The engine's arithmetic. What stands: the golden model, in plain NumPy; `golden` is the specification."""
