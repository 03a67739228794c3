"""How programs are compiled."""

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiler options for what runs once on the CPU: compiled in a fifth of the time, and several times as slow to run."""
