"""Configuration: from names and numbers to the parts of a run, and back."""
