"""Agents for tables, with proofs."""
