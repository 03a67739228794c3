"""Mazes for a point mass with continuous actions."""
