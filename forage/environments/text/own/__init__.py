"""Prompts and reward functions of a person's own."""
