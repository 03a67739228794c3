"""Studies: tools that analyse, compare, share and search runs."""
