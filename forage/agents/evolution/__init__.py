"""Agents that learn from whole returns: evolution strategies."""
