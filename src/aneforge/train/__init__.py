"""Training: parameters, objectives, optimisers on the host, and the trainer that runs a step as one program."""
