"""Runs: train, save, resume and evaluate them, and their files on disk."""
