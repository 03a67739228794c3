"""Environments of single papers."""
