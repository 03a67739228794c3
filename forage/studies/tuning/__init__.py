"""Tuning: hyper-parameters searched on some seeds, and judged on others (`forage tune`)."""
