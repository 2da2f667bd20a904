"""The program: layers of the engine in single assignment, their text form, verifier and float64 evaluator."""
