"""Parts and claims of single papers."""
