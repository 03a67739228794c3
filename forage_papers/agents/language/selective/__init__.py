"""Agents that learn from some of the tokens, or choose who writes each of them."""
