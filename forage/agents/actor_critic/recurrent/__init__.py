"""Agents with critics whose networks remember their episode."""
