"""Where two targets give different bits for one graph, told from the programs compiled for both."""
