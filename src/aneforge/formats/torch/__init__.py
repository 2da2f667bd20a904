"""PyTorch programs, as `torch.export` writes them, made graphs."""
