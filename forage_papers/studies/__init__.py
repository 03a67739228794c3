"""Studies of single papers."""
