"""Agents that learn from a data set, without environment steps."""
