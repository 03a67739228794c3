"""Agents that act by the values of numbered actions."""
