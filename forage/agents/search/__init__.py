"""Agents that look ahead in the environment itself: tree search."""
