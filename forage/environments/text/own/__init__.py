"""Prompts, reward functions and environments of a person's own."""
