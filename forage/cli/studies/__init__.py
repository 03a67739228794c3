"""Commands about several runs, each a file."""
