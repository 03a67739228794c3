"""Tabular MDPs, and what is exactly true of them."""
