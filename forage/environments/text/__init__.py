"""Worlds of text: problems, tools and games."""
