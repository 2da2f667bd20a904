"""Training: parameters, objectives, optimisers on the host and on the engine, and the trainer of a network."""
