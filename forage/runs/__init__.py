"""Runs: train, save, resume, evaluate; what lies on disk."""
