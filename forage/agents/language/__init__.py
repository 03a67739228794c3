"""Agents whose policy is a language model."""
