"""The engine's arithmetic in plain NumPy: `golden` and its neighbours specify it, `dispatch` finds it by operation."""
