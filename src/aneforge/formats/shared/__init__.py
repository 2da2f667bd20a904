"""What readers of several formats share: converters, windows, shapes, findings."""
