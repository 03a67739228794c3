"""Probes of memory and of credit over time, each with its best possible return."""
