"""Studies: what is done with runs."""
