"""The gradients of operations, by groups; the entries of the op table hold them."""
