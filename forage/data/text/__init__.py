"""Recorded text: rows of prompts, texts, answers and preferences, from files of several formats."""
