"""Where two targets give different bits for one graph, found from the programs compiled for both."""
