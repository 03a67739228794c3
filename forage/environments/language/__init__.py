"""Toy languages: prompts and answers, token by token."""
