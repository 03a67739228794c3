"""Agents with a language model as their policy."""
