"""What will happen before anything runs: latency, energy, placement, divergence between targets, ranges of values."""
