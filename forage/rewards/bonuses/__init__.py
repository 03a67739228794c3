"""Bonuses for exploring."""
