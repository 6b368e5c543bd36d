"""How many requests fit, and whether the servers of some hosts fit on the others."""
