"""Gymnasium and the libraries that build on it."""
