"""Agents with a policy and critics, learned from replay."""
