"""Agents that ascend the gradient of their policy's return."""
