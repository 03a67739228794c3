"""Agents that learn from conversations of several turns."""
