"""Other forms of a graph: without what undoes itself, more exact, or faster, and the choice among them."""
