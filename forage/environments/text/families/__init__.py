"""One file for each family of verifiable problems."""
