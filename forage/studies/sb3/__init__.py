"""Policies of Stable-Baselines3, read without PyTorch and without running code of their files."""
