"""What becomes of ATen's operators, a module for each group of them."""
